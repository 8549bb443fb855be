// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/packing.hpp"

namespace trimtab {

/// Swaps replicas of the fullest rank of the region with replicas of other ranks, the lightest rank first,
/// while that lowers the fuller of the two. A swap that brings both to `target` (load / speed) is taken at
/// once, else the best one there is. No swap puts an expert twice on a rank; replica counts stay. Stops when
/// no rank is above `target`, when no swap helps, or after `max_swaps`.
void improve_by_swaps(Packing& packing, const Region& region, double target, std::size_t max_swaps);

}  // namespace trimtab
