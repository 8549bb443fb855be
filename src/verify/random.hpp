// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace trimtab::verify {

/// The output function of splitmix64: a bijection of 64-bit words.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Random choices that a seed fixes, the same on every machine: the standard library's distributions are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(mix(seed ^ gamma)) {}

  [[nodiscard]] std::uint64_t bits() noexcept { return mix(state_ += gamma); }
  /// 0..bound-1. Precondition: 0 < bound < 2^32.
  [[nodiscard]] std::size_t below(std::size_t bound) noexcept {
    return static_cast<std::size_t>(((bits() >> 32) * std::uint64_t{bound}) >> 32);
  }
  /// first..last.
  [[nodiscard]] std::int32_t within(std::int32_t first, std::int32_t last) noexcept {
    return first + static_cast<std::int32_t>(below(static_cast<std::size_t>(last - first) + 1));
  }
  [[nodiscard]] bool one_in(std::size_t n) noexcept { return below(n) == 0; }

  template <class Range>
  [[nodiscard]] const auto& pick(const Range& range) noexcept {
    return range[below(std::size(range))];
  }
  template <class T>
  void shuffle(std::vector<T>& items) noexcept {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  static constexpr std::uint64_t gamma = 0x9e3779b97f4a7c15U;
  std::uint64_t state_;
};

}  // namespace trimtab::verify
