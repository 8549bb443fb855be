// SPDX-License-Identifier: Apache-2.0
#include "moe/text/layers.hpp"

#include <algorithm>

#include "moe/blocked_product.hpp"
#include "moe/gate.hpp"

namespace trimtab::moe {
namespace {

ModelConfig with_inner(const TextConfig& config, std::int32_t inner) {
  ModelConfig shape = config.experts;
  shape.intermediate = inner;
  return shape;
}

std::vector<float> blocked_head(const TextModel& model) {
  const std::size_t width = model.config.width();
  const std::size_t tokens = model.config.tokens();
  std::vector<float> by_input(model.head.size());
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < width; ++h) by_input[h * tokens + t] = model.head[t * width + h];
  }
  std::vector<float> blocked(blocked_size(tokens, width));
  block_matrix(by_input, tokens, blocked);
  return blocked;
}

}  // namespace

TextLayers::TextLayers(const TextModel& model, std::size_t num_sequences, std::size_t num_positions)
    : model_(model),
      cache_(model.config, num_sequences, num_positions),
      attention_(model, cache_),
      dense_(with_inner(model.config, model.config.dense_inner)),
      shared_(with_inner(model.config, model.config.shared_inner)),
      head_(blocked_head(model)) {}

void TextLayers::begin(std::span<const TextRow> rows, std::span<const std::uint8_t> bytes,
                       std::span<float> states) {
  const std::size_t width = model_.config.width();
  rows_ = rows;
  for (std::size_t r = 0; r < rows.size(); ++r)
    std::copy_n(&model_.embedding[bytes[r] * width], width, &states[r * width]);
}

Status TextLayers::before(LayerId layer, std::span<float> states) {
  const auto dense = static_cast<std::size_t>(model_.config.dense_layers);
  if (layer == LayerId{0}) {
    for (std::size_t i = 0; i < dense; ++i) {
      if (Status done = run_dense(i, states); !done) return done;
    }
  }
  return attention_.run(layer.index() + dense, rows_, states);
}

Status TextLayers::beside(LayerId layer, const GateStage& gate, std::span<float> states) {
  return add_feed_forward(shared_, model_.expert_layer(layer).feed_forward, gate.values(), gate.scales(),
                          states);
}

Status TextLayers::run_dense(std::size_t layer, std::span<float> states) {
  if (Status done = attention_.run(layer, rows_, states); !done) return done;
  const std::size_t width = model_.config.width();
  normal_.resize(width);
  values_.resize(states.size());
  scales_.resize(rows_.size());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    rms_norm(states.subspan(r * width, width), model_.layers[layer].norm, normal_);
    scales_[r] = quantise_row(normal_, std::span(values_).subspan(r * width, width));
  }
  return add_feed_forward(dense_, model_.layers[layer].feed_forward, values_, scales_, states);
}

Status TextLayers::add_feed_forward(ExpertKernel& kernel, const FeedForward& weights,
                                    std::span<const std::int8_t> values, std::span<const RowScale> scales,
                                    std::span<float> states) {
  const std::size_t width = model_.config.width();
  const std::size_t rows = states.size() / width;
  said_.resize(states.size());
  said_rows_.resize(rows);
  for (std::size_t r = 0; r < rows; ++r) said_rows_[r] = &said_[r * width];
  const ExpertRows batch{values.first(states.size()), scales.first(rows), said_rows_};
  if (Status done = kernel.run(weights.bundle(), batch); !done) return done;
  for (std::size_t i = 0; i < states.size(); ++i) states[i] += said_[i];
  return {};
}

std::span<const float> TextLayers::finish(std::span<const float> states) {
  const std::size_t width = model_.config.width();
  normal_.resize(states.size());
  logits_.resize(rows_.size() * model_.config.tokens());
  for (std::size_t r = 0; r < rows_.size(); ++r)
    rms_norm(states.subspan(r * width, width), model_.norm, std::span(normal_).subspan(r * width, width));
  blocked_product(std::span(normal_).first(states.size()), width, head_, model_.config.tokens(), logits_);
  return logits_;
}

}  // namespace trimtab::moe
