// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/rank_contents.hpp"

namespace trimtab {

/// Puts `counts[e]` replicas of each expert of the region on different ranks: heaviest replica first (equal:
/// lower expert), each on the rank of least load / speed (equal: lower rank) that has room and not yet that
/// expert. When none is left, replicas that lie already move along a shortest chain of ranks to make room.
/// Precondition: `counts` fits (CopyRoom), so that such a chain exists; `contents` is empty.
void pack_heaviest_first(RankContents& contents, const Region& region, std::span<const std::int32_t> counts);

/// Swaps two replicas of the fullest rank and another one while that lowers the fuller of the two, and takes
/// the best such swap each time. No swap puts an expert twice on a rank. Stops when no rank is above
/// `target` (load / speed), when no swap helps, or after `max_swaps`.
void improve_by_swaps(RankContents& contents, const Region& region, double target, std::size_t max_swaps);

/// The rank of `ranks` with the highest load / speed; equal: the lower rank.
[[nodiscard]] Rank fullest_rank(const RankContents& contents, std::span<const Rank> ranks);

}  // namespace trimtab
