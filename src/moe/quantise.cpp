// SPDX-License-Identifier: Apache-2.0
#include "moe/quantise.hpp"

#include <algorithm>
#include <cmath>

#include "moe/lanes.hpp"

namespace trimtab::moe {
namespace {

Lanes larger(Lanes a, Lanes b) noexcept { return a > b ? a : b; }

float largest_magnitude(std::span<const float> values) noexcept {
  Lanes most = {};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    const Lanes four = load_lanes(&values[i]);
    most = larger(larger(four, -four), most);
  }
  float result = std::max({most[0], most[1], most[2], most[3]});
  for (; i < values.size(); ++i) result = std::max(result, std::fabs(values[i]));
  return result;
}

/// Adding and subtracting 1.5 * 2^23 rounds to nearest even, and vectorises where a call to rint does not.
std::int32_t round_clamped(float value) noexcept {
  const float above = value < 127.0f ? value : 127.0f;
  const float clamped = above > -127.0f ? above : -127.0f;
  constexpr float magic = 12582912.0f;
  return static_cast<std::int32_t>((clamped + magic) - magic);
}

}  // namespace

RowScale quantise_row(std::span<const float> values, std::span<std::int8_t> out) noexcept {
  constexpr float smallest = 1e-30f;
  const float largest = largest_magnitude(values);
  if (largest < smallest) {
    std::fill(out.begin(), out.end(), std::int8_t{0});
    return {};
  }
  const float inverse = 127.0f / largest;
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int32_t q = round_clamped(values[i] * inverse);
    out[i] = static_cast<std::int8_t>(q);
    sum += q;
  }
  return {largest / 127.0f, sum};
}

}  // namespace trimtab::moe
