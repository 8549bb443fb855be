// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trimtab::moe {

/// What a random number is for; numbers of different uses are unrelated.
enum class Use : std::uint64_t {
  token,
  gate,
  norm,
  w13,
  w13_scale,
  w13_offset,
  w2,
  w2_scale,
  w2_offset,
  request,
  sample,
};

/// The output function of splitmix64.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// A counter-based generator: number i of a stream is a function of (seed, use, a, b, i) alone, so that any
/// rank can make any weight or token without state and without telling anyone.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, Use use, std::uint64_t a, std::uint64_t b) noexcept
      : key_(mix64(mix64(mix64(seed + gamma) + gamma * (static_cast<std::uint64_t>(use) + 1)) + gamma * a) ^
             mix64(gamma * (b + 1))) {}

  [[nodiscard]] constexpr std::uint64_t bits(std::uint64_t index) const noexcept {
    return mix64(key_ + gamma * index);
  }
  /// Uniform in [-1, 1), a multiple of 2^-23.
  [[nodiscard]] constexpr float symmetric(std::uint64_t index) const noexcept {
    return static_cast<float>(bits(index) >> 40) * 0x1p-23f - 1.0f;
  }
  /// Uniform in [0, 1), a multiple of 2^-53.
  [[nodiscard]] constexpr double unit(std::uint64_t index) const noexcept {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }

 private:
  static constexpr std::uint64_t gamma = 0x9e3779b97f4a7c15ULL;
  std::uint64_t key_;
};

}  // namespace trimtab::moe
