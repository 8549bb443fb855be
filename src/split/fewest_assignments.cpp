// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split_solver.hpp>

#include "split/fewest_assignments.hpp"

#include "split/max_pressure.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Gives up the smallest share below `least` of each expert that keeps another live slot. Returns how many.
std::int32_t give_up_smallest(std::span<const std::int64_t> assignments, const Topology& topology,
                              std::int64_t least, std::size_t num_experts, std::vector<ExpertId>& row) {
  std::vector<SlotId> smallest(num_experts, no_slot);
  std::vector<std::int32_t> num_live(num_experts, 0);
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert || !topology.is_alive(slot)) continue;
    ++num_live[expert.index()];
    const std::int64_t share = assignments[slot.index()];
    SlotId& best = smallest[expert.index()];
    if (share == 0 || share >= least) continue;
    if (best == no_slot || share < assignments[best.index()]) best = slot;
  }
  std::int32_t count = 0;
  for (ExpertId expert : ids<ExpertId>(num_experts)) {
    if (smallest[expert.index()] == no_slot || num_live[expert.index()] == 1) continue;
    row[smallest[expert.index()].index()] = no_expert;
    ++count;
  }
  return count;
}

}  // namespace

CoarseSplit raise_smallest_shares(std::span<const ExpertId> row, std::span<const std::int64_t> loads,
                                  const Topology& topology, std::int64_t least,
                                  std::span<std::int64_t> assignments) {
  CoarseSplit result;
  std::vector<ExpertId> kept(row.begin(), row.end());
  while (const std::int32_t count = give_up_smallest(assignments, topology, least, loads.size(), kept)) {
    result.num_given_up += count;
    SplitSolver solver = SplitSolver::make(kept, static_cast<std::int32_t>(loads.size()), topology).value();
    const Result<SplitResult> solved = solver.solve_from(assignments, loads, assignments);
    static_cast<void>(solved.value());  // what was checked before stays so
  }
  result.max_pressure = max_pressure(assignments, topology);
  return result;
}

}  // namespace trimtab
