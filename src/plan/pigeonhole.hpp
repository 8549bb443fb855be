// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

namespace trimtab {

/// A bound for ranks of one speed and few slots: no placement of `region` has every rank at a smaller load,
/// whatever its replica counts, if the result is above `floor`; else `floor` comes back. Never above
/// `ceiling`, which must be reached by some placement.
///
/// It refutes loads T by weights: functions g of a replica's share with a sum of at most 1 over any rank of
/// load T, so that sum_e min_c c g(w_e / c) above the number of ranks leaves no room for T (dual feasible
/// functions, Lueker 1983; with replica counts free here). docs/design/0003-planner.md has the functions.
/// O(E) per step of a fixed number of steps. Precondition: `floor` is a bound, at least the mean; all speeds
/// are equal.
[[nodiscard]] double pigeonhole_bound(LayerLoads loads, const Region& region, std::int32_t slots_per_rank,
                                      double floor, double ceiling);

/// The same whatever shares the replicas have: each expert is divided into the pieces that cost it least,
/// found by a dynamic programme over 64ths of T. Weaker, as it must be, and O(E + largest load /
/// mean) per step.
[[nodiscard]] double split_pigeonhole_bound(LayerLoads loads, const Region& region,
                                            std::int32_t slots_per_rank, double floor, double ceiling);

}  // namespace trimtab
