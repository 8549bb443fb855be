// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "moe/text/recording.hpp"
#include "moe/text/session.hpp"
#include "moe/workload.hpp"

namespace trimtab::moe {

/// Requests for text, answered by both arms. No rank may be lost, so no forward is served again.
class TextWorkload final : public Workload {
 public:
  /// Borrows the options, which have a text service.
  TextWorkload(const ServiceOptions& options, Rank rank);

  [[nodiscard]] AroundExperts* around(ArmId arm) noexcept override { return &session(arm); }
  void load(std::span<const Rank>, std::uint64_t, std::uint64_t) override {}
  [[nodiscard]] std::span<float> begin(ArmId arm, std::uint64_t forward) override {
    return session(arm).begin(Forward{forward});
  }
  void finish(ArmId arm, std::uint64_t forward) override;
  void end_block(ArmId, std::uint64_t, std::uint64_t, std::optional<std::uint64_t>) override {}
  void show(ArmId arm, ServiceObserver& observer) const override { observer.on_text(arm, session(arm)); }
  [[nodiscard]] ServedTokens take(ArmId arm) noexcept override;
  /// Of the off arm's requests, spread over the run: finished ones, and where these are too few some that are
  /// under way, as far as they came.
  [[nodiscard]] bool equals_reference() override;
  [[nodiscard]] std::int64_t num_checked() const noexcept override { return num_checked_; }
  [[nodiscard]] std::int64_t tokens_taken_over() const noexcept override { return 0; }
  Status report(Members& members, ServiceReport& report) override;

 private:
  [[nodiscard]] TextSession& session(ArmId arm) const noexcept {
    return *sessions_[static_cast<std::size_t>(arm)];
  }
  /// What `add_counts` takes, of all ranks one behind the other.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  void add_counts(std::span<const std::int64_t> counts_of_all, TextReport& report) const;
  [[nodiscard]] std::vector<TextSample> samples() const;

  const ServiceOptions& options_;
  const TextService& text_;
  std::array<std::unique_ptr<TextSession>, 2> sessions_;  ///< By ArmId.
  std::array<ServedTokens, 2> taken_{};                   ///< So far.
  std::int64_t num_checked_ = 0;
  RecordedRows recorded_;
};

}  // namespace trimtab::moe
