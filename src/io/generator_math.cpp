// SPDX-License-Identifier: Apache-2.0
#include "io/generator_math.hpp"

#include <cmath>

namespace trimtab {
namespace {

constexpr double ln2 = 0x1.62e42fefa39efp-1;
constexpr double sqrt_half = 0x1.6a09e667f3bcdp-1;

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double to_uniform(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::uint64_t random_bits(std::initializer_list<std::uint64_t> place) noexcept {
  std::uint64_t state = 0;
  for (const std::uint64_t part : place) state = mix(state + 0x9e3779b97f4a7c15ULL + mix(part));
  return state;
}

double uniform(std::initializer_list<std::uint64_t> place) noexcept { return to_uniform(random_bits(place)); }

double nearly_gaussian(std::initializer_list<std::uint64_t> place) noexcept {
  const std::uint64_t start = random_bits(place);
  double sum = -6.0;
  for (std::uint64_t i = 1; i <= 12; ++i) sum += to_uniform(mix(start + i * 0x9e3779b97f4a7c15ULL));
  return sum;
}

double repeatable_exp(double x) noexcept {
  const double power = std::floor(x / ln2 + 0.5);
  const double rest = x - power * ln2;  // |rest| <= ln2 / 2: twenty terms are far below the last bit.
  double sum = 1.0;
  for (int term = 20; term >= 1; --term) sum = 1.0 + sum * rest / term;
  return std::ldexp(sum, static_cast<int>(power));
}

double repeatable_log(double x) noexcept {
  int power = 0;
  double mantissa = std::frexp(x, &power);  // in [0.5, 1), then brought around 1
  if (mantissa < sqrt_half) {
    mantissa *= 2.0;
    --power;
  }
  const double t = (mantissa - 1.0) / (mantissa + 1.0);  // ln m = 2 artanh t, |t| < 0.18
  double sum = 0.0;
  for (int odd = 25; odd >= 1; odd -= 2) sum = sum * t * t + 1.0 / odd;
  return power * ln2 + 2.0 * t * sum;
}

}  // namespace trimtab
