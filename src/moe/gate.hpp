// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <span>
#include <vector>

#include "moe/config.hpp"
#include "moe/weight_source.hpp"

namespace trimtab::moe {

// Each token's numbers are computed in a fixed order and never depend on what other tokens are in the batch.

/// out = values / rms(values) * weight.
void rms_norm(std::span<const float> values, std::span<const float> weight, std::span<float> out) noexcept;

/// Gate scores of a batch: sigmoid(tokens * gate). `tokens` [rows][hidden], `gate` of ReplicatedWeights,
/// `out` [rows][experts].
void gate_scores(const ModelConfig& config, std::span<const float> tokens, std::span<const float> gate,
                 std::span<float> out) noexcept;

/// Picks the experts of one token, as DeepSeek-V3 does: the groups with the largest sum of their two best
/// biased scores, then the `top_k` best biased scores in them; ties go to the lower id. Best first. The bias
/// steers the choice only: combine weights are the unbiased scores, normalised to sum one.
///
/// Reuses its memory. One per thread.
class ExpertChooser {
 public:
  explicit ExpertChooser(const ModelConfig& config);

  /// `scores` and `bias` are [experts]; `experts` and `weights` are [top_k].
  void choose(std::span<const float> scores, std::span<const float> bias, std::span<ExpertId> experts,
              std::span<float> weights) noexcept;

  /// The choice without the weights.
  void choose(std::span<const float> scores, std::span<const float> bias,
              std::span<ExpertId> experts) noexcept;

 private:
  void choose_groups() noexcept;

  std::size_t group_size_;
  std::vector<float> biased_;
  std::vector<float> group_scores_;
  std::vector<std::size_t> groups_;  ///< Eligible, ascending.
  std::vector<float> best_scores_;   ///< Of the experts chosen so far.
};

/// Weights of which every rank has a copy: norm and gate of each layer. Immutable; share it between threads.
class ReplicatedWeights {
 public:
  /// Precondition: a config that `check_config` accepts. Generated weights without a source.
  explicit ReplicatedWeights(const ModelConfig& config);
  ReplicatedWeights(const ModelConfig& config, const WeightSource& source);

  [[nodiscard]] std::span<const float> norm(LayerId layer) const noexcept;  ///< [hidden]
  /// As `blocked_product` takes it.
  [[nodiscard]] std::span<const float> gate(LayerId layer) const noexcept;

 private:
  std::size_t width_;
  std::size_t gate_size_;
  std::vector<float> norms_;
  std::vector<float> gates_;
};

}  // namespace trimtab::moe
