// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace trimtab::moe {

/// How the next byte is chosen.
struct Sampling {
  double temperature = 0.0;  ///< 0: the likeliest byte, the lowest of equals.
  std::uint64_t seed = 1;
};

/// What a model needs to say `byte`: -log2 of its probability. `logits` is [vocabulary].
[[nodiscard]] double bits_of(std::span<const float> logits, std::uint8_t byte) noexcept;

/// Chooses by the logits; with a temperature by a number that is a function of seed, request and position
/// alone.
[[nodiscard]] std::uint8_t choose_byte(std::span<const float> logits, const Sampling& sampling,
                                       std::uint64_t request, std::uint64_t position) noexcept;

}  // namespace trimtab::moe
