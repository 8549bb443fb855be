// SPDX-License-Identifier: Apache-2.0
#include "moe/weights.hpp"

#include <algorithm>
#include <cmath>

#include "moe/rng.hpp"

namespace trimtab::moe {
namespace {

RandomStream stream(const ModelConfig& config, Use use, LayerId layer, ExpertId expert) noexcept {
  return {config.seed, use, static_cast<std::uint64_t>(layer.value()),
          static_cast<std::uint64_t>(expert.value())};
}

/// Maps a byte evenly enough onto -63..63.
std::int8_t to_weight(std::uint64_t byte) noexcept {
  return static_cast<std::int8_t>(static_cast<std::int32_t>((byte & 0xff) * 127 >> 8) - weight_limit);
}

void fill_weights(const RandomStream& random, std::span<std::int8_t> out) noexcept {
  const std::size_t words = out.size() / 8;
  for (std::size_t word = 0; word < words; ++word) {
    const std::uint64_t bits = random.bits(word);
    for (std::size_t i = 0; i < 8; ++i) out[word * 8 + i] = to_weight(bits >> (8 * i));
  }
  for (std::size_t i = words * 8; i < out.size(); ++i)
    out[i] = to_weight(random.bits(words) >> (8 * (i % 8)));
}

/// `gain` is the size of a channel's output for inputs of size one.
float mean_scale(float gain, std::int32_t inputs) noexcept {
  constexpr float weight_rms = 36.7f;
  return gain / (weight_rms * std::sqrt(static_cast<float>(inputs)));
}

void fill_scales(const RandomStream& random, float mean, std::span<float> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mean * (1.0f + 0.25f * random.symmetric(i));
}

void fill_offsets(const RandomStream& random, std::span<std::int32_t> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int32_t>(random.bits(i) % 9) - 4;
}

}  // namespace

void generate_expert(const ModelConfig& config, LayerId layer, ExpertId expert, const Bundle& out) noexcept {
  const auto random = [&](Use use) { return stream(config, use, layer, expert); };
  fill_weights(random(Use::w13), out.w13);
  fill_scales(random(Use::w13_scale), mean_scale(1.0f, config.hidden), out.w13_scale);
  fill_offsets(random(Use::w13_offset), out.w13_offset);
  fill_weights(random(Use::w2), out.w2);
  // SwiGLU of two unit normals has size 0.6.
  fill_scales(random(Use::w2_scale), mean_scale(2.0f / 0.6f, config.intermediate), out.w2_scale);
  fill_offsets(random(Use::w2_offset), out.w2_offset);
}

void generate_gate(const ModelConfig& config, LayerId layer, std::span<float> out) noexcept {
  const RandomStream random = stream(config, Use::gate, layer, ExpertId{0});
  const float size = std::sqrt(3.0f / static_cast<float>(config.hidden));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = size * random.symmetric(i);
}

void generate_norm(const ModelConfig& config, LayerId layer, std::span<float> out) noexcept {
  fill_scales(stream(config, Use::norm, layer, ExpertId{0}), 1.0f, out);
}

}  // namespace trimtab::moe
