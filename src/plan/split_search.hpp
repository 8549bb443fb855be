// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/anneal.hpp"
#include "plan/split_flow.hpp"

#include <deque>

namespace trimtab {

struct SplitSearchOptions {
  Objective objective = Objective::worst;
  double good_enough = 1.0;           ///< Ends when the optimum is not above the targets times this.
  std::size_t max_steps = 0;          ///< Ends after as many tries.
  std::size_t rounds = 1;             ///< That they are divided among: each at another level.
  const SpillLimit* spill = nullptr;  ///< None: any expert on any rank of the region.
};

/// Searches for a row whose exact split has a lower optimum, by changes of counts and places. What lies on
/// ranks that are held full at some level (the tight experts of SplitFlow) gets a slot outside them. Load
/// that finds no rank at that level is the energy that is annealed; when none is left the optimum is not
/// above the level. Levels close in on the lowest that can be reached. The views end with the best row seen,
/// never worse than they were. Else as `anneal`.
void search_for_split(std::span<LoadView> views, const Region& region, const SplitSearchOptions& options);

}  // namespace trimtab
