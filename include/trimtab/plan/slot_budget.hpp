// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

/// What a number of slots can buy.
struct SlotBudgetPoint {
  std::int64_t total_slots = 0;  ///< Over all layers and live ranks.
  double max_load_sum = 0.0;     ///< Sum over layers of the largest rank load / speed: the time to wait for.
};

struct SlotBudgetPlan {
  Topology topology;                ///< The ranks, each with as many slots as the widest layer has there.
  Plan plan;                        ///< For `topology`; slots that a narrower layer does not use are vacant.
  std::vector<std::int32_t> slots;  ///< By LayerId, over live ranks; 0 where dense.
  std::int64_t total_slots = 0;     ///< Their sum, at most the budget; less where more would not help.
  /// The least sum for each total from the fewest possible slots up to `total_slots`, in steps of one slot
  /// on every live rank. Falls strictly: totals that buy nothing are left out.
  std::vector<SlotBudgetPoint> curve;
};

/// Decides how many slots each layer gets when only their total is given, and plans each layer for its
/// number. A slot more goes where it lowers the sum over layers of the largest rank load most, so uneven
/// layers get more than even ones (CRAFT, arXiv 2603.28768). Within a layer every live rank gets equally
/// many, so all ranks need the same memory. The choice among the widths tried is exact, however the gains
/// run.
///
/// Widths of a layer are tried upwards until its ranks are even within 0.1 % or three in a row gain less
/// than that; slots that together gain less are left over. So the same width for every layer, within the
/// same budget, is at most 0.1 % better. Pure, like plan_rebalance, and parallel over layers. Dense layers
/// hold no experts and cost nothing.
/// @param topology     nodes, speeds and liveness count; slot counts do not
/// @param total_slots  over all layers that are not dense and all live ranks
/// @return `infeasible` when the budget is below one slot per expert and layer (rounded up to equal ranks),
///         and the errors of plan_rebalance.
[[nodiscard]] Result<SlotBudgetPlan> plan_slot_budget(const LoadMatrix& loads, const Topology& topology,
                                                      std::int64_t total_slots, const PlanOptions& options,
                                                      Executor& executor);

}  // namespace trimtab
