// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <random>

namespace trimtab {

/// A fixed sequence of pseudo-random choices, the same on every machine: the distributions of the standard
/// library are not.
class Random {
 public:
  /// 0..bound-1. Precondition: 0 < bound < 2^32.
  [[nodiscard]] std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(((engine_() >> 32) * std::uint64_t{bound}) >> 32);
  }

  /// About exponentially distributed, mean 1.5 (a piecewise linear -log2 of a uniform number): by
  /// whole-number arithmetic, as the last digit of std::log differs between libraries.
  [[nodiscard]] double waiting_time() {
    const std::uint64_t bits = engine_() | 1;
    const int zeros = std::countl_zero(bits);
    const std::uint64_t fraction = (bits << zeros) << 1;
    return zeros + 1.0 - static_cast<double>(fraction >> 11) * 0x1p-53;
  }

 private:
  std::mt19937_64 engine_{20260101};
};

}  // namespace trimtab
