// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace trimtab::moe {

/// What goes with a row of int8 activations: real value = scale * q.
struct RowScale {
  float scale = 0.0f;
  std::int32_t sum = 0;  ///< Of the row's q: the offset term of the weights needs it.

  friend bool operator==(const RowScale&, const RowScale&) = default;
};

/// Symmetric dynamic quantisation of one row to -127..127, rounding to nearest, ties to even. A row of
/// (nearly) zeros becomes all zero with scale 0. NaN becomes 127. Needs the default rounding mode.
RowScale quantise_row(std::span<const float> values, std::span<std::int8_t> out) noexcept;

}  // namespace trimtab::moe
