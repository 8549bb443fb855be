// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

namespace trimtab {

/// One layer of a placement: the expert of each slot, by SlotId.
using Row = std::span<const ExpertId>;

/// Slots whose rank holds the same expert in a lower slot; vacant slots do not count.
[[nodiscard]] std::int32_t count_duplicates(Row row, const Topology& topology);

/// Every expert has a slot on a live rank (I1).
[[nodiscard]] bool is_live(Row row, std::int32_t num_experts, const Topology& topology);

/// All live replicas of each of the groups lie in one node, and each node holds equally many groups.
[[nodiscard]] bool keeps_groups_together(Row row, std::int32_t num_experts, std::int32_t num_groups,
                                         const Topology& topology);

/// Slot s holds s mod E; with `only_live`, slots of dead ranks are vacant.
[[nodiscard]] std::vector<ExpertId> identity_row(std::int32_t num_experts, const Topology& topology,
                                                 bool only_live);

}  // namespace trimtab
