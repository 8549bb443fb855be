// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "moe/config.hpp"
#include "moe/gate.hpp"
#include "moe/quantise.hpp"

namespace trimtab::moe {

/// A batch of calibration tokens on its way through the model, layer after layer, all experts on this
/// process. One thread; uses `executor` inside.
class SampleBatch {
 public:
  SampleBatch(const ModelConfig& config, const ReplicatedWeights& weights, std::size_t num_tokens,
              Executor& executor);

  /// Back to the tokens before the first layer.
  void restart();
  /// Norm and gate scores of the states under `layer`.
  void score(LayerId layer);
  [[nodiscard]] std::span<const float> scores() const noexcept { return scores_; }  ///< [tokens][experts]

  /// How many tokens choose each expert under `bias`, by the scores computed last.
  void count_choices(std::span<const float> bias, std::span<std::int64_t> counts);

  /// Applies the experts of `layer` as chosen under `bias`. After `score(layer)`.
  Status apply(LayerId layer, std::span<const float> bias);

 private:
  void for_each_token_chunk(
      const std::function<void(std::size_t chunk, std::size_t first, std::size_t last)>& work);
  void choose(std::span<const float> bias);
  Status run_experts(LayerId layer, std::size_t first, std::size_t last);
  void combine();

  [[nodiscard]] std::span<const float> scores_of(std::size_t token) const noexcept;

  const ModelConfig config_;
  const ReplicatedWeights& weights_;
  Executor& executor_;
  std::size_t num_tokens_;
  std::vector<float> states_;           ///< [tokens][hidden]
  std::vector<float> normal_;           ///< [tokens][hidden]
  std::vector<float> scores_;           ///< [tokens][experts]
  std::vector<std::int8_t> quantised_;  ///< [tokens][hidden]
  std::vector<RowScale> scales_;        ///< [tokens]
  std::vector<ExpertId> experts_;       ///< [tokens][top_k]
  std::vector<float> combine_;          ///< [tokens][top_k]
  std::vector<float> outputs_;          ///< [tokens][top_k][hidden]
};

}  // namespace trimtab::moe
