// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/random.hpp"

#include <trimtab/core/placement.hpp>

#include <cstdint>

namespace trimtab::verify {

struct PlacementShape {
  std::int32_t num_layers = 1;
  std::int32_t num_slots = 1;
  std::int32_t num_experts = 1;  ///< At most `num_slots`.
};

/// Every expert somewhere; what is left holds any expert, or none.
[[nodiscard]] Placement draw_placement(const PlacementShape& shape, Random& random);

/// Another placement of the same shape. Layer by layer: the same, a few slots changed, a cycle of slots, one
/// expert in many slots, replicas given up, vacant slots filled, or all new.
[[nodiscard]] Placement draw_next_placement(const Placement& placement, Random& random);

}  // namespace trimtab::verify
