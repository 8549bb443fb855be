// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "moe/quantise.hpp"

namespace trimtab::moe {

/// The real value of one dot product of quantised numbers.
[[nodiscard]] inline float dequantise(std::int32_t sum, std::int32_t offset, RowScale row,
                                      float channel_scale) noexcept {
  return static_cast<float>(sum - offset * row.sum) * (row.scale * channel_scale);
}

}  // namespace trimtab::moe
