// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/group.hpp"
#include "plan/region.hpp"

namespace trimtab {

/// No placement of `region` (vacant slots, second copies on a rank and all) has every rank at a smaller
/// load / speed. The larger of
/// - the load of the region over the speed of its ranks: a mean is not above the maximum;
/// - the best floor over replica counts: an expert on m different ranks puts its whole load w on them, so one
///   of them has at least w / (sum of the m fastest speeds); which m are possible at once is CopyRoom's
///   condition, and raising the highest such quotient first makes the largest of them as small as can be.
///
/// With one slot per rank and equal speeds it is exact: docs/design/0003-planner.md has the proofs.
[[nodiscard]] double pressure_bound(LayerLoads loads, const Region& region, const Topology& topology);

/// A node under group_strict.
struct NodeRanks {
  std::vector<Rank> ranks;  ///< Usable ranks.
  double speed = 0.0;       ///< Their sum.
  std::size_t kind = 0;     ///< The first node whose ranks have the same slots and speeds.
};

/// The same under group_strict, for every packing of groups to nodes. The larger of
/// - the pressure of `packing` when that is optimal, else total load over total speed;
/// - for each group, on the node that suits it best, the floor over its replica counts when every other
///   expert of that node has one slot only.
/// @param groups  experts of each group
[[nodiscard]] double pressure_bound(LayerLoads loads, std::span<const std::vector<ExpertId>> groups,
                                    std::span<const NodeRanks> nodes, const GroupPacking& packing,
                                    const Topology& topology);

}  // namespace trimtab
