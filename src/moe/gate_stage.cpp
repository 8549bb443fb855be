// SPDX-License-Identifier: Apache-2.0
#include "moe/gate_stage.hpp"

namespace trimtab::moe {

GateStage::GateStage(const ModelConfig& config, const ReplicatedWeights& weights, std::size_t max_tokens)
    : config_(config),
      weights_(weights),
      chooser_(config),
      normal_(max_tokens * config.width()),
      scores_(max_tokens * config.experts()),
      values_(max_tokens * config.width()),
      scales_(max_tokens),
      experts_(max_tokens * config.choices()),
      combine_(max_tokens * config.choices()) {}

void GateStage::run(LayerId layer, std::span<const float> states, std::span<const float> bias) noexcept {
  const std::size_t width = config_.width();
  const std::size_t top_k = config_.choices();
  num_tokens_ = states.size() / width;
  for (std::size_t t = 0; t < num_tokens_; ++t) {
    const auto normal = std::span(normal_).subspan(t * width, width);
    rms_norm(states.subspan(t * width, width), weights_.norm(layer), normal);
    scales_[t] = quantise_row(normal, std::span(values_).subspan(t * width, width));
  }
  gate_scores(config_, std::span(normal_).first(num_tokens_ * width), weights_.gate(layer), scores_);
  for (std::size_t t = 0; t < num_tokens_; ++t) {
    chooser_.choose(std::span(scores_).subspan(t * config_.experts(), config_.experts()), bias,
                    std::span(experts_).subspan(t * top_k, top_k),
                    std::span(combine_).subspan(t * top_k, top_k));
  }
}

std::span<const ExpertId> GateStage::experts() const noexcept {
  return std::span(experts_).first(num_tokens_ * config_.choices());
}

std::span<const float> GateStage::weights_of(std::size_t token) const noexcept {
  return std::span(combine_).subspan(token * config_.choices(), config_.choices());
}

}  // namespace trimtab::moe
