// SPDX-License-Identifier: Apache-2.0
#include "moe/text/reference.hpp"

#include <trimtab/core/checksum.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "moe/reference_parts.hpp"
#include "moe/rng.hpp"

namespace trimtab::moe {
namespace {

using namespace plainly;

Reals through(const QuantisedMatrix& matrix, const Reals& row) {
  return linear(quantise(row), matrix.q, matrix.scale, matrix.offset);
}

void add(Reals& state, const Reals& more) {
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += more[i];
}

/// One sequence, position after position; all keys and values so far, by layer.
class Sequence {
 public:
  explicit Sequence(const TextModel& model)
      : model_(model), config_(model.config), keys_(model.layers.size()), values_(model.layers.size()) {}

  /// The logits of what follows `byte`.
  Reals step(std::uint8_t byte) {
    const auto from = model_.embedding.begin() + static_cast<std::ptrdiff_t>(byte * config_.width());
    Reals state(from, from + static_cast<std::ptrdiff_t>(config_.width()));
    for (std::size_t layer = 0; layer < model_.layers.size(); ++layer) {
      add(state, attend(layer, normalise(state, model_.layers[layer].attention_norm)));
      feed_forward(layer, state);
    }
    ++position_;
    return project(normalise(state, model_.norm));
  }

 private:
  Reals attend(std::size_t layer, const Reals& normal) {
    const Reals qkv = through(model_.layers[layer].qkv, normal);
    const std::size_t width = config_.width();
    const std::size_t head_width = config_.head_width();
    keys_[layer].emplace_back();
    values_[layer].emplace_back(qkv.begin() + static_cast<std::ptrdiff_t>(2 * width), qkv.end());
    Reals said;
    for (std::size_t first = 0; first < width; first += head_width) {
      Reals query = turned({&qkv[first], head_width});
      for (float& x : query) x *= 1.0f / std::sqrt(static_cast<float>(head_width));
      const Reals key = turned({&qkv[width + first], head_width});
      keys_[layer].back().insert(keys_[layer].back().end(), key.begin(), key.end());
      const Reals context = look_back(layer, first, query);
      said.insert(said.end(), context.begin(), context.end());
    }
    return through(model_.layers[layer].out, said);
  }

  [[nodiscard]] Reals turned(std::span<const float> head) const {
    const std::size_t half = head.size() / 2;
    Reals out(head.size());
    for (std::size_t i = 0; i < half; ++i) {
      const double rate = std::pow(config_.rope_base, -static_cast<double>(i) / static_cast<double>(half));
      const double angle = static_cast<double>(position_) * rate;
      const auto cos = static_cast<float>(std::cos(angle));
      const auto sin = static_cast<float>(std::sin(angle));
      out[i] = head[i] * cos - head[i + half] * sin;
      out[i + half] = head[i + half] * cos + head[i] * sin;
    }
    return out;
  }

  [[nodiscard]] Reals look_back(std::size_t layer, std::size_t first, const Reals& query) const {
    Reals scores;
    for (const Reals& key : keys_[layer]) {
      float score = 0.0f;
      for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * key[first + i];
      scores.push_back(score);
    }
    const float largest = *std::ranges::max_element(scores);
    float sum = 0.0f;
    for (float& score : scores) sum += score = std::exp(score - largest);
    Reals out(query.size(), 0.0f);
    for (std::size_t p = 0; p < scores.size(); ++p) {
      for (std::size_t i = 0; i < query.size(); ++i) out[i] += scores[p] * values_[layer][p][first + i];
    }
    const float inverse = 1.0f / sum;
    for (float& x : out) x *= inverse;
    return out;
  }

  void feed_forward(std::size_t index, Reals& state) const {
    const TextLayer& layer = model_.layers[index];
    const Reals normal = normalise(state, layer.norm);
    const Quantised token = quantise(normal);
    add(state, evaluate(layer.feed_forward.bundle(), token));
    if (layer.gate.empty()) return;
    const auto dense = static_cast<std::size_t>(config_.dense_layers);
    const ModelConfig& shape = config_.experts;
    Reals gate(layer.gate.size());
    for (std::size_t e = 0; e < shape.experts(); ++e) {
      for (std::size_t h = 0; h < normal.size(); ++h)
        gate[h * shape.experts() + e] = layer.gate[e * normal.size() + h];
    }
    const Choice choice = choose(shape, score(shape, normal, gate), layer.bias);
    Reals sums(state.size(), 0.0f);
    for (std::size_t k = 0; k < choice.experts.size(); ++k) {
      const FeedForward& expert = model_.experts[(index - dense) * shape.experts() + choice.experts[k]];
      const Reals said = evaluate(expert.bundle(), token);
      for (std::size_t h = 0; h < said.size(); ++h) sums[h] += choice.weights[k] * said[h];
    }
    add(state, sums);
  }

  [[nodiscard]] Reals project(const Reals& normal) const {
    Reals logits;
    for (std::size_t token = 0; token < config_.tokens(); ++token) {
      float sum = 0.0f;
      for (std::size_t h = 0; h < normal.size(); ++h)
        sum += normal[h] * model_.head[token * normal.size() + h];
      logits.push_back(sum);
    }
    return logits;
  }

  const TextModel& model_;
  const TextConfig& config_;
  std::size_t position_ = 0;
  std::vector<std::vector<Reals>> keys_;  ///< [layers][positions][width]
  std::vector<std::vector<Reals>> values_;
};

double bits_to_say(const Reals& logits, std::uint8_t byte) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return (std::log(sum) + largest - static_cast<double>(logits[byte])) * 1.4426950408889634;
}

std::uint8_t next_byte(const Reals& logits, const Sampling& sampling, std::uint64_t request,
                       std::uint64_t position) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) best = logits[i] > logits[best] ? i : best;
  if (sampling.temperature == 0.0) return static_cast<std::uint8_t>(best);
  std::vector<double> weights;
  double sum = 0.0;
  for (const float logit : logits) {
    const double below = static_cast<double>(logit) - static_cast<double>(logits[best]);
    weights.push_back(std::exp(below / sampling.temperature));
    sum += weights.back();
  }
  double left = RandomStream(sampling.seed, Use::sample, request, position).unit(0) * sum;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0.0) return static_cast<std::uint8_t>(i);
  }
  return static_cast<std::uint8_t>(weights.size() - 1);
}

}  // namespace

TextAnswer answer_by_reference(const TextModel& model, const TextTraffic& traffic,
                               const TextRequest& request) {
  TextAnswer answer{.request = request};
  Sequence sequence(model);
  const std::size_t prompt = request.prompt.size();
  for (std::size_t position = 0; answer.said.size() < traffic.new_bytes; ++position) {
    const bool is_prompt = position < prompt;
    const Reals logits = sequence.step(is_prompt ? request.prompt[position] : answer.said[position - prompt]);
    const std::array<std::uint64_t, 2> both{answer.digest, checksum_of(std::as_bytes(std::span(logits)))};
    answer.digest = checksum_of(std::as_bytes(std::span(both)));
    if (position + 1 < prompt) {
      answer.bits += bits_to_say(logits, request.prompt[position + 1]);
    } else {
      answer.said.push_back(next_byte(logits, traffic.sampling, request.id, position + 1));
    }
  }
  return answer;
}

}  // namespace trimtab::moe
