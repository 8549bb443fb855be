// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/plan/nodes_per_token.hpp>
#include <trimtab/plan/planner.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// Means over the layers that are not dense.
struct NodesSummary {
  double mean = 0.0;
  std::int32_t max = 0;
};

/// Nodes per token of a plan under `loads`. @param limit  fits the loads
[[nodiscard]] NodesSummary summarize_nodes(const Plan& plan, const LoadMatrix& loads,
                                           const Topology& topology, const GroupLimit& limit);

/// What one spill limit buys: from all groups at home to no limit.
struct SpillPoint {
  double limit;
  double imbalance_mean;
  double spill_mean;
  std::optional<NodesSummary> nodes;  ///< Where the group limit is known; under the first scenario.
};

/// Plans once for each limit; `options.locality` and `options.spill` do not matter.
/// @return the error of plan_rebalance
[[nodiscard]] Result<std::vector<SpillPoint>> compute_spill_curve(
    std::span<const LoadMatrix> scenarios, const Topology& topology, PlanOptions options,
    const std::optional<GroupLimit>& group_limit, Executor& executor);

/// `[{limit, imbalance_mean, locality_spill, nodes_per_token_mean, nodes_per_token_max}]`; the last two where
/// known.
[[nodiscard]] nlohmann::ordered_json spill_entries(std::span<const SpillPoint> curve);
[[nodiscard]] std::string spill_text(std::span<const SpillPoint> curve);

}  // namespace trimtab
