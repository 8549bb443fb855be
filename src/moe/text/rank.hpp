// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "moe/service.hpp"
#include "moe/text/session.hpp"

namespace trimtab::moe {

/// What one rank serves of a real model in both arms, and what is reported of it. One thread.
class TextRank {
 public:
  /// Borrows the service. Up to `max_rows` go through a forward.
  TextRank(const TextService& service, Rank rank, std::size_t max_rows);

  [[nodiscard]] TextSession& session(ArmId id) noexcept { return *sessions_[static_cast<std::size_t>(id)]; }
  /// Rows that went through an arm since it was asked last.
  [[nodiscard]] std::int64_t take_rows(ArmId id) noexcept;

  /// Has the reference answer up to `most` of the requests that the off arm has answered, spread over the
  /// run.
  [[nodiscard]] bool equals_reference(std::uint64_t most);
  [[nodiscard]] std::int64_t num_checked() const noexcept { return num_checked_; }

  /// What `report` is made of, of all ranks one behind the other.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  [[nodiscard]] TextReport report(std::span<const std::int64_t> counts_of_all) const;

 private:
  [[nodiscard]] const TextSession& session(ArmId id) const noexcept {
    return *sessions_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] std::vector<TextSample> samples() const;

  const TextService& service_;
  std::array<std::unique_ptr<TextSession>, 2> sessions_;  ///< By ArmId.
  std::array<std::int64_t, 2> rows_{};                    ///< Taken so far.
  std::int64_t num_checked_ = 0;
};

}  // namespace trimtab::moe
