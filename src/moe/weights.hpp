// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstdint>
#include <span>

#include "moe/config.hpp"

namespace trimtab::moe {

/// Weights lie in -weight_limit..weight_limit: with 7 bits no int8 kernel of oneDNN saturates.
inline constexpr std::int32_t weight_limit = 63;

/// The bundle of one expert, W8A8: a real weight is scale * (q - offset), scale and offset by output channel.
/// Views; `Byte`, `Real` and `Int` are const or not.
template <class Byte, class Real, class Int>
struct BasicBundle {
  std::span<Byte> w13;        ///< [2 * intermediate][hidden]: gate rows, then up rows.
  std::span<Real> w13_scale;  ///< [2 * intermediate]
  std::span<Int> w13_offset;  ///< [2 * intermediate]
  std::span<Byte> w2;         ///< [hidden][intermediate]
  std::span<Real> w2_scale;   ///< [hidden]
  std::span<Int> w2_offset;   ///< [hidden]
};
using Bundle = BasicBundle<std::int8_t, float, std::int32_t>;
using ConstBundle = BasicBundle<const std::int8_t, const float, const std::int32_t>;

[[nodiscard]] inline ConstBundle as_const(const Bundle& b) noexcept {
  return {b.w13, b.w13_scale, b.w13_offset, b.w2, b.w2_scale, b.w2_offset};
}

/// Writes the weights of one expert. Scales are such that an expert's output has about twice the size of a
/// normalised input: layers matter to later routing and nothing explodes.
void generate_expert(const ModelConfig& config, LayerId layer, ExpertId expert, const Bundle& out) noexcept;

/// Writes the gate of one layer, [hidden][experts]: logits of a normalised token have variance one.
void generate_gate(const ModelConfig& config, LayerId layer, std::span<float> out) noexcept;

/// Writes the weight of one layer's RMS norm, [hidden], in 0.75..1.25.
void generate_norm(const ModelConfig& config, LayerId layer, std::span<float> out) noexcept;

}  // namespace trimtab::moe
