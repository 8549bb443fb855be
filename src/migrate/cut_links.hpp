// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/rank_set.hpp"
#include "migrate/view_message.hpp"

#include <trimtab/core/ids.hpp>

#include <map>

namespace trimtab {

/// `ranks` without one end of every cut link. A link is cut where both ends wait for each other in the same
/// forward: each has sent its part before it began to wait. Who waits for a rank that waits for a third, or
/// that has not begun the forward, has nothing against its own link. The rank with most cut links goes first,
/// the highest of several.
[[nodiscard]] RankSet without_cut_links(RankSet ranks, const std::map<Rank, Unheard>& unheard);

}  // namespace trimtab
