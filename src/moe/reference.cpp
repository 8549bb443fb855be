// SPDX-License-Identifier: Apache-2.0
#include "moe/reference.hpp"

#include <vector>

#include "moe/reference_parts.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {
namespace {

using namespace plainly;

/// Owns the weights of one expert.
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

  [[nodiscard]] ConstBundle bundle() const { return {w13, w13_scale, w13_offset, w2, w2_scale, w2_offset}; }

  std::vector<std::int8_t> w13, w2;
  Reals w13_scale, w2_scale;
  std::vector<std::int32_t> w13_offset, w2_offset;
};

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
        said[t][k] = evaluate(expert.bundle(), tokens[t]);
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
