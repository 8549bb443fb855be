// SPDX-License-Identifier: Apache-2.0
#include "moe/gate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "moe/blocked_product.hpp"

namespace trimtab::moe {
namespace {

/// Inserts into `best`, descending; an equal score stays behind those already there.
template <class Id>
void insert_best(std::span<float> best, std::span<Id> names, std::size_t& count, float score,
                 Id name) noexcept {
  if (count == best.size() && !(score > best[count - 1])) return;
  std::size_t at = count < best.size() ? count++ : count - 1;
  for (; at > 0 && best[at - 1] < score; --at) {
    best[at] = best[at - 1];
    names[at] = names[at - 1];
  }
  best[at] = score;
  names[at] = name;
}

float sum_of_two_best(std::span<const float> scores) noexcept {
  float first = scores[0];
  float second = -std::numeric_limits<float>::infinity();
  for (const float score : scores.subspan(1)) {
    if (score > first) {
      second = first;
      first = score;
    } else if (score > second) {
      second = score;
    }
  }
  return scores.size() == 1 ? first : first + second;
}

}  // namespace

void rms_norm(std::span<const float> values, std::span<const float> weight, std::span<float> out) noexcept {
  float squares = 0.0f;
  for (const float value : values) squares += value * value;
  const float mean = squares / static_cast<float>(values.size());
  const float inverse = 1.0f / std::sqrt(mean + 1e-6f);
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i] * inverse * weight[i];
}

void gate_scores(const ModelConfig& config, std::span<const float> tokens, std::span<const float> gate,
                 std::span<float> out) noexcept {
  blocked_product(tokens, config.width(), gate, config.experts(), out);
  const std::size_t scores = tokens.size() / config.width() * config.experts();
  for (float& score : out.first(scores)) score = 1.0f / (1.0f + std::exp(-score));
}

ExpertChooser::ExpertChooser(const ModelConfig& config)
    : group_size_(config.experts() / static_cast<std::size_t>(config.num_groups)),
      biased_(config.experts()),
      group_scores_(static_cast<std::size_t>(config.top_groups)),
      groups_(static_cast<std::size_t>(config.top_groups)),
      best_scores_(config.choices()) {}

void ExpertChooser::choose_groups() noexcept {
  std::size_t count = 0;
  for (std::size_t group = 0; group * group_size_ < biased_.size(); ++group) {
    const auto scores = std::span(biased_).subspan(group * group_size_, group_size_);
    insert_best(std::span(group_scores_), std::span(groups_), count, sum_of_two_best(scores), group);
  }
  std::sort(groups_.begin(), groups_.end());
}

void ExpertChooser::choose(std::span<const float> scores, std::span<const float> bias,
                           std::span<ExpertId> experts) noexcept {
  for (std::size_t e = 0; e < biased_.size(); ++e) biased_[e] = scores[e] + bias[e];
  choose_groups();
  std::size_t count = 0;
  for (const std::size_t group : groups_) {
    for (std::size_t e = group * group_size_; e < (group + 1) * group_size_; ++e) {
      insert_best(std::span(best_scores_), experts, count, biased_[e],
                  ExpertId{static_cast<std::int32_t>(e)});
    }
  }
}

void ExpertChooser::choose(std::span<const float> scores, std::span<const float> bias,
                           std::span<ExpertId> experts, std::span<float> weights) noexcept {
  choose(scores, bias, experts);
  float sum = 0.0f;
  for (const ExpertId expert : experts) sum += scores[expert.index()];
  for (std::size_t k = 0; k < experts.size(); ++k) weights[k] = scores[experts[k].index()] / sum;
}

ReplicatedWeights::ReplicatedWeights(const ModelConfig& config, const WeightSource& source)
    : width_(config.width()),
      gate_size_(blocked_size(config.experts(), width_)),
      norms_(config.layers() * width_),
      gates_(config.layers() * gate_size_) {
  std::vector<float> plain(width_ * config.experts());
  for (const LayerId layer : ids<LayerId>(config.num_layers)) {
    source.fill_norm(layer, std::span(norms_).subspan(layer.index() * width_, width_));
    source.fill_gate(layer, plain);
    block_matrix(plain, config.experts(), std::span(gates_).subspan(layer.index() * gate_size_, gate_size_));
  }
}

ReplicatedWeights::ReplicatedWeights(const ModelConfig& config)
    : ReplicatedWeights(config, GeneratedWeights(config)) {}

std::span<const float> ReplicatedWeights::norm(LayerId layer) const noexcept {
  return std::span(norms_).subspan(layer.index() * width_, width_);
}

std::span<const float> ReplicatedWeights::gate(LayerId layer) const noexcept {
  return std::span(gates_).subspan(layer.index() * gate_size_, gate_size_);
}

}  // namespace trimtab::moe
