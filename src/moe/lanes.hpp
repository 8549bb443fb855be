// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

namespace trimtab::moe {

/// Four floats side by side, for the few loops that compilers do not vectorise without reordering sums. Plain
/// IEEE operations by lane, so results are those of the scalar loop.
using Lanes = float __attribute__((vector_size(16)));

[[nodiscard]] inline Lanes load_lanes(const float* from) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

}  // namespace trimtab::moe
