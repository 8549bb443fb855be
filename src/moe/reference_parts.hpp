// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/config.hpp"
#include "moe/weights.hpp"

/// Parts of a layer in scalar loops, for the references alone. Kept apart from the executor's code on
/// purpose: what both computed by the same function, a comparison could not find wrong.
namespace trimtab::moe::plainly {

using Reals = std::vector<float>;

/// A row in int8: scale * q.
struct Quantised {
  std::vector<int> q;
  float scale = 0.0f;
  int sum = 0;
};

struct Choice {
  std::vector<std::size_t> experts;  ///< Best first.
  Reals weights;
};

/// RMS norm.
[[nodiscard]] Reals normalise(std::span<const float> state, std::span<const float> weight);
[[nodiscard]] Quantised quantise(const Reals& values);
/// The gate's scores of all experts; `gate` is [hidden][experts].
[[nodiscard]] Reals score(const ModelConfig& config, const Reals& token, const Reals& gate);
[[nodiscard]] Choice choose(const ModelConfig& config, const Reals& scores, std::span<const float> bias);
/// scale * (q - offset), summed against a quantised row.
[[nodiscard]] Reals linear(const Quantised& row, std::span<const std::int8_t> weights,
                           std::span<const float> scales, std::span<const std::int32_t> offsets);
/// What an expert says of a token.
[[nodiscard]] Reals evaluate(const ConstBundle& expert, const Quantised& token);

}  // namespace trimtab::moe::plainly
