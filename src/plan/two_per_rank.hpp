// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

namespace trimtab {

/// Replica counts for ranks that all have two slots and one speed. There heaviest with lightest is the best
/// packing of given counts, so only the counts are searched, by simulated annealing: one expert gives a
/// replica to another, and the energy is the heaviest pair of replicas. Returns the best counts seen,
/// `counts` among them.
///
/// Ends at a heaviest pair of at most `good_enough` (load) or after `max_steps`; the random numbers are
/// fixed.
/// @param counts  by ExpertId; in the region they add up to its slots and none exceeds its ranks
[[nodiscard]] std::vector<std::int32_t> search_pair_counts(LayerLoads loads, const Region& region,
                                                           std::vector<std::int32_t> counts,
                                                           double good_enough, std::size_t max_steps);

}  // namespace trimtab
