// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "moe/expert_kernel.hpp"
#include "moe/gate_stage.hpp"
#include "moe/text/layers.hpp"

namespace trimtab::bench {

/// The same model as one process would serve it that knows of no ranks, slots, tables or messages: each
/// layer's rows are gathered by expert, and go through the same kernels.
class PlainModel {
 public:
  /// Borrows both.
  PlainModel(const moe::TextModel& model, const moe::ReplicatedWeights& weights, std::size_t max_rows)
      : model_(model),
        config_(model.config.experts),
        gate_(config_, weights, max_rows),
        kernel_(config_),
        bias_(model.gate_bias()),
        rows_of_(config_.experts()),
        said_(max_rows * config_.choices() * config_.width()) {}

  void forward(moe::TextLayers& layers, std::span<float> states) {
    for (const LayerId layer : ids<LayerId>(config_.num_layers)) {
      if (!layers.before(layer, states)) std::abort();
      gate_.run(layer, states,
                std::span(bias_).subspan(layer.index() * config_.experts(), config_.experts()));
      run_experts(layer);
      if (!layers.beside(layer, gate_, states)) std::abort();
      combine(states);
    }
  }

 private:
  void run_experts(LayerId layer) {
    const std::span<const ExpertId> chosen = gate_.experts();
    for (auto& rows : rows_of_) rows.clear();
    for (std::size_t i = 0; i < chosen.size(); ++i) rows_of_[chosen[i].index()].push_back(i);
    for (const ExpertId expert : ids<ExpertId>(config_.num_experts)) {
      const std::vector<std::size_t>& choices = rows_of_[expert.index()];
      if (!choices.empty()) run_expert(model_.expert(layer, expert), choices);
    }
  }

  void run_expert(const moe::FeedForward& expert, std::span<const std::size_t> choices) {
    const std::size_t width = config_.width();
    values_.resize(choices.size() * width);
    scales_.clear();
    out_.clear();
    for (std::size_t r = 0; r < choices.size(); ++r) {
      const std::size_t token = choices[r] / config_.choices();
      std::ranges::copy(gate_.values().subspan(token * width, width), &values_[r * width]);
      scales_.push_back(gate_.scales()[token]);
      out_.push_back(&said_[choices[r] * width]);
    }
    if (!kernel_.run(expert.bundle(), {values_, scales_, out_})) std::abort();
  }

  void combine(std::span<float> states) {
    const std::size_t width = config_.width();
    std::vector<const float*> outputs(config_.choices());
    for (std::size_t t = 0; t * width < states.size(); ++t) {
      for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k] = &said_[(t * outputs.size() + k) * width];
      moe::combine_token(gate_.weights_of(t), outputs, states.subspan(t * width, width));
    }
  }

  const moe::TextModel& model_;
  const moe::ModelConfig& config_;
  moe::GateStage gate_;
  moe::ExpertKernel kernel_;
  std::vector<float> bias_;
  std::vector<std::vector<std::size_t>> rows_of_;  ///< [experts]: choices, token by token.
  std::vector<float> said_;                        ///< [tokens][top_k][width]
  std::vector<std::int8_t> values_;
  std::vector<moe::RowScale> scales_;
  std::vector<float*> out_;
};

}  // namespace trimtab::bench
