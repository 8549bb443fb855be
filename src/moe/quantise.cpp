// SPDX-License-Identifier: Apache-2.0
#include "moe/quantise.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::moe {
namespace {

float largest_magnitude(std::span<const float> values) noexcept {
  // Eight running maxima, so that the loop vectorises; a maximum does not depend on the order.
  float lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const float size = std::fabs(values[i + lane]);
      lanes[lane] = size > lanes[lane] ? size : lanes[lane];
    }
  }
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], std::fabs(values[i]));
  return *std::max_element(lanes, lanes + 8);
}

/// Adding and subtracting 1.5 * 2^23 rounds to nearest even, and vectorises where a call to rint does not.
std::int32_t round_clamped(float value) noexcept {
  const float above = value <= 127.0f ? value : 127.0f;
  const float clamped = above >= -127.0f ? above : -127.0f;
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
