// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

namespace trimtab {

/// `next` with the slots of each rank permuted so that an expert that stays on its rank stays in its slot.
/// Which expert lies on which rank does not change, so neither does balance; fewer slots are written.
/// Precondition: same layers, slots and experts in `current`, `next` and `topology`.
[[nodiscard]] Placement align_slots(const Placement& current, const Placement& next,
                                    const Topology& topology);

}  // namespace trimtab
