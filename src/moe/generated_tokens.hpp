// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "moe/workload.hpp"

namespace trimtab::moe {

/// Tokens that are functions of forward and rank. Those of ranks that are gone are dealt out among the
/// others.
class GeneratedTokens final : public Workload {
 public:
  /// Borrows the options.
  GeneratedTokens(const ServiceOptions& options, Rank rank);

  [[nodiscard]] AroundExperts* around(ArmId) noexcept override { return nullptr; }
  void load(std::span<const Rank> members, std::uint64_t begin, std::uint64_t end) override;
  [[nodiscard]] std::span<float> begin(ArmId, std::uint64_t forward) override {
    return batch(forward).states;
  }
  void finish(ArmId, std::uint64_t) override {}
  void end_block(ArmId arm, std::uint64_t begin, std::uint64_t end,
                 std::optional<std::uint64_t> repeated) override;
  [[nodiscard]] ServedTokens take(ArmId) noexcept override;
  [[nodiscard]] bool equals_reference() override;
  [[nodiscard]] std::int64_t num_checked() const noexcept override {
    return static_cast<std::int64_t>(samples_.size());
  }
  [[nodiscard]] std::int64_t tokens_taken_over() const noexcept override { return tokens_taken_over_; }

 private:
  /// Tokens that this rank serves.
  struct Share {
    Rank rank;  ///< That brought them; this one's own come first.
    std::size_t first = 0;
    std::size_t count = 0;
  };
  struct Batch {
    std::vector<Share> shares;
    std::vector<float> states;  ///< Of all shares: inputs become outputs.
  };

  [[nodiscard]] Batch& batch(std::uint64_t forward) { return batches_[forward % batches_.size()]; }
  [[nodiscard]] std::vector<Share> make_shares(std::span<const Rank> members) const;
  [[nodiscard]] bool is_sample(std::uint64_t forward) const;
  [[nodiscard]] bool equals_reference(std::uint64_t forward, const Batch& served) const;

  const ServiceOptions& options_;
  Rank rank_;
  std::size_t own_tokens_;
  std::vector<Batch> batches_;              ///< Of a block.
  std::map<std::uint64_t, Batch> samples_;  ///< By forward; the off arm's as long as it serves.
  std::int64_t tokens_taken_over_ = 0;
};

}  // namespace trimtab::moe
