// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstdint>

namespace trimtab {

/// 2^64 and 2^32 divided by the golden ratio: multiples of it, cut to their low bits, are spread as evenly as
/// multiples of one number can be.
inline constexpr std::uint64_t golden_step_64 = 0x9e3779b97f4a7c15U;
inline constexpr std::uint32_t golden_step_32 = 0x9e3779b9U;

/// A number that differs from layer to layer and expert to expert, so that not everything begins at the
/// lowest slot.
constexpr std::uint32_t mix(LayerId layer, ExpertId expert) noexcept {
  auto x =
      static_cast<std::uint32_t>(layer.value()) * golden_step_32 + static_cast<std::uint32_t>(expert.value());
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  return x ^ (x >> 13);
}

}  // namespace trimtab
