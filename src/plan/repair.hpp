// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/rank_contents.hpp"

namespace trimtab {

/// Adds `expert` to a full rank that does not hold it, when every rank with room does: along a shortest chain
/// of ranks, each passes on one replica that the next does not hold, and the last has room. That is an
/// augmenting path of the bipartite flow experts -> ranks, so it exists whenever the counts placed so far,
/// this replica included, can be placed at all.
void make_room_by_chain(RankContents& contents, const Region& region, ExpertId expert);

}  // namespace trimtab
