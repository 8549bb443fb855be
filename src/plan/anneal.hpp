// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include "plan/packing.hpp"

namespace trimtab {

/// One layer under one load scenario. With several scenarios all packings have the same row.
struct LoadView {
  Packing packing;
  double target;  ///< Load / speed that no rank should exceed; > 0.
  double weight;  ///< Of the scenario; the weights of all views add up to 1.
};

/// How far the views are from their targets: the fullest rank / target of the worst view, or the weighted
/// mean of it over the views. 1.0: every target is met exactly.
[[nodiscard]] double excess_of(std::span<const LoadView> views, std::span<const Rank> ranks,
                               Objective objective);

/// Keeps the load that replicas outside their expert's home node serve within a share of all load.
struct SpillLimit {
  std::span<const NodeId> home;  ///< By ExpertId.
  double share;                  ///< Of the load of each view, 0 to 1.
};

struct AnnealOptions {
  Objective objective = Objective::worst;
  double good_enough = 1.0;           ///< Ends when excess_of is not above it.
  std::size_t max_steps = 0;          ///< Ends after as many tries.
  std::size_t rounds = 1;             ///< That they are divided among: each heats the best row so far again.
  const SpillLimit* spill = nullptr;  ///< None: any expert on any rank of the region.
};

/// Searches by simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983) for a row with less excess, by swaps
/// of two replicas and by count changes: a replica of one expert gives its slot to a further replica of
/// another. The energy is the sum over views and ranks of the squared excess over the target. The views end
/// with the best row seen, so never worse than they were. No expert comes twice on a rank, and none loses its
/// last replica; slots outside the region and vacant slots stay; a row within the spill limit stays within
/// it. The random numbers are fixed.
void anneal(std::span<LoadView> views, const Region& region, const AnnealOptions& options);

}  // namespace trimtab
