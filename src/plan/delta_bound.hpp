// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/holders.hpp"

namespace trimtab {

/// What a placement must keep to be counted among those that `moves_bound` speaks of.
struct DeltaRules {
  std::span<const NodeId>
      home;  ///< By ExpertId, the node that holds it now, when groups stay together; or empty.
  std::size_t group_size = 1;     ///< Experts per group, with `home`.
  bool may_leave_vacant = false;  ///< A slot that was in use may end up vacant.
  bool may_repeat = false;        ///< A rank may get a second copy of an expert that it holds.
};

/// Every placement of the experts on live ranks that keeps `rules` and has every load / speed at or below
/// `limit` has at least so many moves from `row`. The largest of
/// - copies: an expert of load w needs w / (limit * fastest speed) ranks;
/// - crowded ranks: each rank above the limit must shed enough of its experts, and a move sheds at most one
///   expert from each rank that holds it, and one from the rank it goes to (not with `may_repeat`);
/// - groups: where a node is above the limit, two groups at least change nodes.
/// docs/design/0007-delta-plans.md has the proof.
/// @param row  what live slots hold before any move; `no_expert` elsewhere
[[nodiscard]] std::int32_t moves_bound(LayerLoads loads, Row row, const Holders& holders,
                                       const Topology& topology, double limit, const DeltaRules& rules);

}  // namespace trimtab
