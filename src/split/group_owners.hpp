// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// `row` without the slots outside the node that owns the expert's group (SplitOptions::num_groups).
/// Precondition: the groups divide the experts, and the row is that of a valid placement.
/// @return `infeasible` naming group and expert where no node owns a group.
[[nodiscard]] Result<std::vector<ExpertId>> keep_owned_slots(std::span<const ExpertId> row,
                                                             std::int32_t num_experts,
                                                             std::int32_t num_groups,
                                                             const Topology& topology);

}  // namespace trimtab
