// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/holders.hpp"

namespace trimtab {

/// The node of each group of consecutive, equally large groups of experts, under group_strict.
using GroupHomes = std::vector<NodeId>;

/// The homes under which most replicas of `row` are already in the right node, with equally many groups on
/// each node. Precondition: the nodes divide `num_groups`, and that divides `num_experts`.
[[nodiscard]] GroupHomes nearest_homes(Row row, std::int32_t num_experts, std::int32_t num_groups,
                                       const Topology& topology);

/// Homes on the way from `homes` to an even node load: each exchanges two groups of the one before, the pair
/// that takes most off what lies above `limit` (load / speed); none where no exchange helps.
[[nodiscard]] std::vector<GroupHomes> level_homes(const GroupHomes& homes,
                                                  std::span<const double> group_loads,
                                                  const Topology& topology, double limit);

/// Largest load / speed of a node.
[[nodiscard]] double node_pressure(const GroupHomes& homes, std::span<const double> group_loads,
                                   const Topology& topology);

/// By ExpertId.
[[nodiscard]] std::vector<NodeId> expert_homes(const GroupHomes& homes, std::int32_t num_experts);

/// Load by group.
[[nodiscard]] std::vector<double> group_loads_of(LayerLoads loads, std::int32_t num_groups);

}  // namespace trimtab
