// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "moe/config.hpp"
#include "moe/gate.hpp"
#include "moe/quantise.hpp"

namespace trimtab::moe {

/// The part of a layer that every rank does for its own tokens: norm, quantise, gate, choose. Reuses its
/// memory.
class GateStage {
 public:
  /// Borrows `weights`.
  GateStage(const ModelConfig& config, const ReplicatedWeights& weights, std::size_t max_tokens);

  /// `states` is [tokens][hidden], `bias` [experts]. What the accessors return is valid until the next call.
  void run(LayerId layer, std::span<const float> states, std::span<const float> bias) noexcept;

  [[nodiscard]] std::span<const ExpertId> experts() const noexcept;  ///< [tokens][top_k], best first
  [[nodiscard]] std::span<const float> weights_of(std::size_t token) const noexcept;  ///< [top_k]
  [[nodiscard]] std::span<const std::int8_t> values() const noexcept {
    return values_;
  }                                                                                    ///< [tokens][hidden]
  [[nodiscard]] std::span<const RowScale> scales() const noexcept { return scales_; }  ///< [tokens]

 private:
  ModelConfig config_;
  const ReplicatedWeights& weights_;
  ExpertChooser chooser_;
  std::size_t num_tokens_ = 0;
  std::vector<float> normal_;
  std::vector<float> scores_;
  std::vector<std::int8_t> values_;
  std::vector<RowScale> scales_;
  std::vector<ExpertId> experts_;
  std::vector<float> combine_;
};

}  // namespace trimtab::moe
