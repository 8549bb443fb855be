// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/program.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab {

/// What one step has taken of each rank's staging and stall, and what more the budgets allow. A bundle, or an
/// exchange of two, cannot be divided: the stall budget never refuses it to a rank that has nothing else.
class StepRoom {
 public:
  /// Borrows `input`.
  explicit StepRoom(const ProgramInput& input);

  /// Whether `rank` can write `count` more slots with bundles of `bytes`.
  [[nodiscard]] bool fits(Rank rank, std::size_t bytes, std::size_t count) const noexcept;
  /// How many slots with bundles of `bytes` an empty step can write on a rank.
  [[nodiscard]] std::size_t max_count(std::size_t bytes) const noexcept;
  /// Whether `rank` can exchange two more of its slots.
  [[nodiscard]] bool fits_exchange(Rank rank, std::size_t bytes) const noexcept;

  void take(Rank rank, std::size_t bytes, std::size_t count) noexcept;
  void take_exchange(Rank rank, std::size_t bytes) noexcept;
  /// Begins another step.
  void clear() noexcept;

  /// Largest ever taken of one rank in one step.
  [[nodiscard]] std::size_t max_staging_bytes() const noexcept { return max_staging_; }
  [[nodiscard]] std::size_t max_stall_bytes() const noexcept { return max_stall_; }

 private:
  [[nodiscard]] bool may_stall(std::size_t used, std::size_t more, std::size_t atom) const noexcept;
  void add(Rank rank, std::size_t staging, std::size_t stall) noexcept;

  const ProgramInput& input_;
  std::vector<std::size_t> staging_;  ///< By rank.
  std::vector<std::size_t> stall_;    ///< By rank.
  std::size_t max_staging_ = 0;
  std::size_t max_stall_ = 0;
};

}  // namespace trimtab
