// SPDX-License-Identifier: Apache-2.0
#include "moe/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "moe/weights.hpp"

namespace trimtab::moe {
namespace {

// Kept apart from the executor's code on purpose: what both computed by the same function, a comparison could
// not find wrong.

using Reals = std::vector<float>;

struct Quantised {
  std::vector<int> q;
  float scale = 0.0f;
  int sum = 0;
};

struct Choice {
  std::vector<std::size_t> experts;  ///< Best first.
  Reals weights;
};

struct Expert {
  explicit Expert(const ModelConfig& c)
      : w13(2 * c.inner() * c.width()),
        w2(c.width() * c.inner()),
        w13_scale(2 * c.inner()),
        w2_scale(c.width()),
        w13_offset(2 * c.inner()),
        w2_offset(c.width()) {}

  void generate(const ModelConfig& config, LayerId layer, std::size_t expert) {
    generate_expert(config, layer, ExpertId{static_cast<std::int32_t>(expert)},
                    {w13, w13_scale, w13_offset, w2, w2_scale, w2_offset});
  }

  std::vector<std::int8_t> w13, w2;
  Reals w13_scale, w2_scale;
  std::vector<std::int32_t> w13_offset, w2_offset;
};

Reals normalise(std::span<const float> state, const Reals& weight) {
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

/// scale * (q - offset), summed against a quantised row.
Reals linear(const Quantised& row, std::span<const std::int8_t> weights, const Reals& scales,
             const std::vector<std::int32_t>& offsets) {
  Reals out;
  for (std::size_t n = 0; n < scales.size(); ++n) {
    int sum = 0;
    for (std::size_t k = 0; k < row.q.size(); ++k) sum += row.q[k] * weights[n * row.q.size() + k];
    out.push_back(static_cast<float>(sum - offsets[n] * row.sum) * (row.scale * scales[n]));
  }
  return out;
}

Reals evaluate(const Expert& expert, const Quantised& token) {
  const Reals both = linear(token, expert.w13, expert.w13_scale, expert.w13_offset);
  const std::size_t inner = both.size() / 2;
  Reals activated;
  for (std::size_t i = 0; i < inner; ++i) {
    activated.push_back(both[i] / (1.0f + std::exp(-both[i])) * both[inner + i]);
  }
  return linear(quantise(activated), expert.w2, expert.w2_scale, expert.w2_offset);
}

void run_layer(const ModelConfig& config, LayerId layer, std::span<const float> bias,
               std::span<float> states) {
  Reals norm(config.width());
  Reals gate(config.width() * config.experts());
  generate_norm(config, layer, norm);
  generate_gate(config, layer, gate);
  std::vector<Quantised> tokens;
  std::vector<Choice> choices;
  for (std::size_t t = 0; t * config.width() < states.size(); ++t) {
    const Reals normal = normalise(states.subspan(t * config.width(), config.width()), norm);
    tokens.push_back(quantise(normal));
    choices.push_back(choose(config, score(config, normal, gate), bias));
  }
  // Experts outside, so that each is generated once; what they say is kept and added up in order of choice.
  std::vector<std::vector<Reals>> said(tokens.size(), std::vector<Reals>(config.choices()));
  Expert expert(config);
  for (std::size_t e = 0; e < config.experts(); ++e) {
    bool is_generated = false;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      for (std::size_t k = 0; k < config.choices(); ++k) {
        if (choices[t].experts[k] != e) continue;
        if (!is_generated) expert.generate(config, layer, e);
        is_generated = true;
        said[t][k] = evaluate(expert, tokens[t]);
      }
    }
  }
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t h = 0; h < config.width(); ++h) {
      float sum = 0.0f;
      for (std::size_t k = 0; k < config.choices(); ++k) sum += choices[t].weights[k] * said[t][k][h];
      states[t * config.width() + h] += sum;
    }
  }
}

}  // namespace

void run_reference(const ModelConfig& config, std::span<const float> bias, std::span<float> states) {
  for (const LayerId layer : ids<LayerId>(config.num_layers)) {
    run_layer(config, layer, bias.subspan(layer.index() * config.experts(), config.experts()), states);
  }
}

}  // namespace trimtab::moe
