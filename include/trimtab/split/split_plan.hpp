// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/split/split.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

struct SplitOptions {
  /// Tokens of shared experts for each routed assignment, 1 / top-k for one shared expert: what `waterfilled`
  /// is computed for. Any live rank may take them.
  double shared_tokens = 0.0;

  /// Above 1: group-strict. The experts of each of so many groups are served only in the node that owns the
  /// group: the one that holds a live replica of each of its experts, of several the one with most live
  /// replicas of them, of these the first. Replicas elsewhere get nothing.
  std::int32_t num_groups = 1;

  /// Fewest assignments of a replica that is used at all. Above 1 the split is a heuristic: replicas below it
  /// are given up, each expert's smallest first, and the rest is split again; `max_pressure` over `optimum`
  /// says what that cost. An expert keeps its last replica however few its assignments are.
  std::int64_t min_assignments = 0;
};

/// What shares alone do for one layer. Imbalances are max / mean of load / speed.
struct LayerSplit {
  LayerId layer;
  bool is_dense = false;     ///< Zero load: shared evenly; not to be listed or averaged.
  double even = 1.0;         ///< Imbalance under even shares.
  double exact = 1.0;        ///< Imbalance of the best split in fractions of an assignment.
  double waterfilled = 1.0;  ///< The same when the ranks below the fullest take shared-expert tokens first.
  double optimum = 0.0;      ///< `exact` as a load / speed, in the unit of the loads.
  double max_pressure =
      0.0;  ///< Of the split in whole assignments; at equal speeds below `optimum` + 1 / speed.
  std::int32_t num_given_up = 0;        ///< Replicas that get nothing for the sake of `min_assignments`.
  std::vector<Rank> tight_ranks;        ///< Ascending: the ranks that hold the optimum up.
  std::vector<ExpertId> tight_experts;  ///< Ascending: experts with load that no other rank can take.
};

struct SplitPlan {
  Split split;
  std::vector<LayerSplit> layers;  ///< One for each row of the load, dense rows included.
};

/// The exact split (SplitSolver) of every layer.
///
/// Pure: same input, same output, on any executor, thread count and process. Layers are solved in parallel
/// over `executor`. The split of a layer whose loads are not whole, or sum up to more than `max_split_total`,
/// is in units of 2^-k of an assignment, so chosen that its sum is between 2^39 and 2^41; a load is off by
/// half a unit at most, and `max_pressure` is in the unit of the loads all the same.
/// @return `invalid_argument` when the sizes of loads, placement and topology differ or an option is out of
/// its
///         range; `infeasible` naming layer and expert without live slot, or layer, group and expert where no
///         node owns a group.
[[nodiscard]] Result<SplitPlan> solve_split(const LoadMatrix& loads, const Placement& placement,
                                            const Topology& topology, const SplitOptions& options,
                                            Executor& executor);

}  // namespace trimtab
