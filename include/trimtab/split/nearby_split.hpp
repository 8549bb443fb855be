// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// What an assignment costs that is not computed where its token is.
struct LeavingCosts {
  std::int64_t rank = 1;  ///< Computed on another rank.
  std::int64_t node = 8;  ///< In addition, on another node.
};

/// Assignments that are not computed where their tokens are, when every source rank is served as near as the
/// split allows.
struct Leaving {
  std::int64_t rank = 0;  ///< On another rank, other nodes included.
  std::int64_t node = 0;  ///< On another node.

  [[nodiscard]] std::int64_t cost(const LeavingCosts& costs) const noexcept {
    return rank * costs.rank + node * costs.node;
  }
};

/// A split that keeps assignments near their tokens.
struct NearbySplit {
  std::vector<std::int64_t> assignments;  ///< [slots]
  double optimum = 0.0;       ///< Of the exact split: largest load / speed that any split must have.
  double max_pressure = 0.0;  ///< Largest load / speed of this one.
  Leaving before;             ///< Of the exact split.
  Leaving after;              ///< Of this one.
};

/// Of all splits of one layer whose load / speed is nowhere above (1 + slack) times the optimum, one of least
/// cost. The limit is never below what whole assignments can reach. A source rank's own replica serves it
/// first, then replicas in its node; the rest goes anywhere, so costs follow from the totals of slots alone.
/// @param by_source  [ranks][experts]: assignments of the tokens that are on each rank
/// @return the errors of SplitSolver; `invalid_argument` for a slack that is not finite or negative, negative
/// costs, or
///         a size of `by_source`.
[[nodiscard]] Result<NearbySplit> solve_nearby(std::span<const ExpertId> row, std::int32_t num_experts,
                                               const Topology& topology,
                                               std::span<const std::int64_t> by_source, double slack,
                                               const LeavingCosts& costs = {});

/// How many assignments of each expert one source rank sends to each slot, so that all sources together make
/// up the split and each is served as near as it can be: own rank first, own node next, the rest; within node
/// and rest in the order of ranks, without gaps. Every rank can compute its own row.
/// @param assignments  [slots], a split of the same loads over `row`
/// @return [slots]; `invalid_argument` naming an expert whose assignments are not the sum of its sources, or
/// the sizes. Time is O(ranks * experts + slots), memory O(slots + experts).
[[nodiscard]] Result<std::vector<std::int64_t>> split_of_source(
    std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology,
    std::span<const std::int64_t> by_source, std::span<const std::int64_t> assignments, Rank source);

}  // namespace trimtab
