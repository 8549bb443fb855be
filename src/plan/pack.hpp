// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/rank_contents.hpp"

namespace trimtab {

/// Puts `counts[e]` replicas of each expert of the region on different ranks: heaviest replica first (equal:
/// lower expert), each on the rank of least load / speed (equal: lower rank) that has room and not yet that
/// expert. When none is left, replicas that lie already move along a shortest chain of ranks to make room.
/// Precondition: `counts` fits (CopyRoom), so that such a chain exists; `contents` is empty.
/// @return whether a lighter rank with room was passed over because it held the expert, or a chain was needed
bool pack_heaviest_first(RankContents& contents, const Region& region, std::span<const std::int32_t> counts);

}  // namespace trimtab
