// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/diff.hpp>
#include <trimtab/plan/planner.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab {

/// When a delta plan stops moving. With none given it stops as soon as it is as even as the full re-plan.
struct DeltaOptions {
  std::optional<std::int32_t> max_moves;  ///< Per layer.
  /// Over all layers, at `expert_bytes` a move; spent where a move buys most.
  std::optional<std::uint64_t> move_budget_bytes;
  std::uint64_t expert_bytes = 0;  ///< Of one expert of one layer.
  /// Enough when imbalance <= (1 + within) * that of the full re-plan.
  std::optional<double> within;
  /// Search for the best placement at several balances on the way, not only at the end of it: the curve gets
  /// lower in between, for up to three times the work. Implied by `max_moves` and `move_budget_bytes`.
  bool fine_curve = false;
  /// The ranks that `current` was made for, when they are not those of the new topology. Rank r is the same
  /// device in both.
  std::optional<Topology> from;
};

/// What can be had for a number of moves.
struct CurvePoint {
  std::int32_t moves = 0;
  double imbalance = 1.0;

  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

/// How one layer was changed.
struct LayerDelta {
  LayerId layer;
  double imbalance_from = 1.0;      ///< Of `current`; an expert without a live replica carries nothing.
  double imbalance_full = 1.0;      ///< Of the full re-plan.
  std::int32_t required_moves = 0;  ///< Before which no placement is valid.
  std::int32_t moves_bound = 0;     ///< No placement as even as the one planned takes fewer moves (I6).
  ChangeCounts counts;
  /// More moves, less imbalance; from the fewest moves that give a valid placement on.
  std::vector<CurvePoint> curve;
};

struct DeltaPlan {
  Plan plan;  ///< As plan_rebalance reports it; a dense layer is kept as it is in `current`.
  std::vector<LayerDelta> layers;  ///< One for each row of the load.
};

/// Plans from a placement in use to one that is as even as asked for by few moves. A move is a slot that gets
/// an expert which its rank did not hold before. Experts that stay on their rank keep their slot.
///
/// The full re-plan (`plan_rebalance` with `options`) is the measure of balance and fixes the locality; where
/// searches from `current` do not get as far, the curve ends in it, with ranks of equal standing relabelled
/// so that fewest moves remain. Under group_strict whole groups change nodes where the balance asked for
/// needs it. Second copies of an expert that a rank of `current` has may stay; none is added where the rank
/// may hold another expert. Vacant slots are filled unless `options` allow them: these moves are required,
/// like those that give lost experts a place or bring a split group together. docs/design/0007-delta-plans.md
/// has the method and the proof of the bound.
///
/// Pure: same input, same output, on any executor, thread count and process; layers are planned in parallel.
/// @return what plan_rebalance returns; `unavailable` under a locality other than none and group_strict;
///         `invalid_argument` when shapes differ or an option is out of its range; `infeasible` naming layer,
///         need and limit when required moves exceed `max_moves` or the budget.
[[nodiscard]] Result<DeltaPlan> plan_delta(const LoadMatrix& loads, const Placement& current,
                                           const Topology& topology, const PlanOptions& options,
                                           const DeltaOptions& delta, Executor& executor);

}  // namespace trimtab
