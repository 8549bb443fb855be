// SPDX-License-Identifier: Apache-2.0
#include "moe/reference_parts.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace trimtab::moe::plainly {
namespace {

/// Indices of `values`, largest first, equal ones by index.
std::vector<std::size_t> ranked(const Reals& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

std::vector<bool> eligible_groups(const ModelConfig& config, const Reals& biased) {
  const auto groups = static_cast<std::size_t>(config.num_groups);
  const std::size_t size = config.experts() / groups;
  Reals sums;
  for (std::size_t g = 0; g < groups; ++g) {
    const auto begin = biased.begin() + static_cast<std::ptrdiff_t>(g * size);
    Reals members(begin, begin + static_cast<std::ptrdiff_t>(size));
    std::sort(members.begin(), members.end(), std::greater<>());
    sums.push_back(size == 1 ? members[0] : members[0] + members[1]);
  }
  const std::vector<std::size_t> order = ranked(sums);
  std::vector<bool> eligible(groups, false);
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.top_groups); ++i) eligible[order[i]] = true;
  return eligible;
}

}  // namespace

Reals normalise(std::span<const float> state, std::span<const float> weight) {
  float squares = 0.0f;
  for (const float x : state) squares += x * x;
  const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(state.size()) + 1e-6f);
  Reals out;
  for (std::size_t i = 0; i < state.size(); ++i) out.push_back(state[i] * inverse * weight[i]);
  return out;
}

Quantised quantise(const Reals& values) {
  float largest = 0.0f;
  for (const float v : values) largest = std::max(largest, std::fabs(v));
  Quantised out;
  out.q.assign(values.size(), 0);
  if (largest < 1e-30f) return out;
  out.scale = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.q[i] = static_cast<int>(std::nearbyint(std::clamp(values[i] * inverse, -127.0f, 127.0f)));
    out.sum += out.q[i];
  }
  return out;
}

Reals score(const ModelConfig& config, const Reals& token, const Reals& gate) {
  Reals scores;
  for (std::size_t e = 0; e < config.experts(); ++e) {
    float logit = 0.0f;
    for (std::size_t h = 0; h < token.size(); ++h) logit += token[h] * gate[h * config.experts() + e];
    scores.push_back(1.0f / (1.0f + std::exp(-logit)));
  }
  return scores;
}

Choice choose(const ModelConfig& config, const Reals& scores, std::span<const float> bias) {
  Reals biased;
  for (std::size_t e = 0; e < scores.size(); ++e) biased.push_back(scores[e] + bias[e]);
  const std::vector<bool> eligible = eligible_groups(config, biased);
  const std::size_t group_size = config.experts() / eligible.size();
  Choice choice;
  float sum = 0.0f;
  for (const std::size_t e : ranked(biased)) {
    if (choice.experts.size() == config.choices()) break;
    if (!eligible[e / group_size]) continue;
    choice.experts.push_back(e);
    sum += scores[e];
  }
  for (const std::size_t e : choice.experts) choice.weights.push_back(scores[e] / sum);
  return choice;
}

Reals linear(const Quantised& row, std::span<const std::int8_t> weights, std::span<const float> scales,
             std::span<const std::int32_t> offsets) {
  Reals out;
  for (std::size_t n = 0; n < scales.size(); ++n) {
    int sum = 0;
    for (std::size_t k = 0; k < row.q.size(); ++k) sum += row.q[k] * weights[n * row.q.size() + k];
    out.push_back(static_cast<float>(sum - offsets[n] * row.sum) * (row.scale * scales[n]));
  }
  return out;
}

Reals evaluate(const ConstBundle& expert, const Quantised& token) {
  const Reals both = linear(token, expert.w13, expert.w13_scale, expert.w13_offset);
  const std::size_t inner = both.size() / 2;
  Reals activated;
  for (std::size_t i = 0; i < inner; ++i) {
    activated.push_back(both[i] / (1.0f + std::exp(-both[i])) * both[inner + i]);
  }
  return linear(quantise(activated), expert.w2, expert.w2_scale, expert.w2_offset);
}

}  // namespace trimtab::moe::plainly
