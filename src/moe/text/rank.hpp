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

/// What went through the model.
struct ServedText {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  ///< Of prompts, and what the model needed to say them.
  double bits = 0.0;
};

/// What one rank serves of a real model in both arms, and what is reported of it. One thread.
class TextRank {
 public:
  /// Borrows the service. Up to `max_rows` go through a forward.
  TextRank(const TextService& service, Rank rank, std::size_t max_rows);

  [[nodiscard]] TextSession& session(ArmId id) noexcept { return *sessions_[static_cast<std::size_t>(id)]; }
  /// After a forward. @return the checksum of its outputs.
  std::uint64_t finish(ArmId id);
  /// What went through an arm since it was asked last.
  [[nodiscard]] ServedText take(ArmId id) noexcept;

  /// Has the reference answer up to `most` of the off arm's requests, spread over the run: finished ones, and
  /// where these are too few some that are under way, as far as they came.
  [[nodiscard]] bool equals_reference(std::uint64_t most);
  [[nodiscard]] std::int64_t num_checked() const noexcept { return num_checked_; }

  /// What `report` is made of, of all ranks one behind the other.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  [[nodiscard]] TextReport report(std::span<const std::int64_t> counts_of_all) const;
  [[nodiscard]] const RecordedRows& recorded() const noexcept { return recorded_; }

 private:
  [[nodiscard]] const TextSession& session(ArmId id) const noexcept {
    return *sessions_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] std::vector<TextSample> samples() const;

  const TextService& service_;
  std::array<std::unique_ptr<TextSession>, 2> sessions_;  ///< By ArmId.
  std::array<ServedText, 2> taken_{};                     ///< So far.
  std::int64_t num_checked_ = 0;
  RecordedRows recorded_;
};

}  // namespace trimtab::moe
