// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/plan/planner.hpp>

#include <vector>

namespace trimtab::test {

/// Limits of what is drawn.
struct CaseLimits {
  std::int32_t layers = 3;
  std::int32_t nodes = 3;
  std::int32_t ranks_per_node = 3;
  std::int32_t slots_per_rank = 9;
  std::int32_t groups_per_node = 3;
  std::int32_t experts_per_group = 5;
};

/// One call of plan_rebalance. May be infeasible.
struct PlanCase {
  LoadMatrix loads;
  Topology topology;
  PlanOptions options;
};

/// Draws ragged slots, unequal speeds, dead and slotless ranks, groups, all localities and efforts; loads
/// with zeros, ties, fractions and outliers. Only inside a rapidcheck property.
[[nodiscard]] PlanCase draw_case(const CaseLimits& limits = {});

/// More load scenarios of the size of `drawn.loads`.
[[nodiscard]] std::vector<LoadMatrix> draw_scenarios(const PlanCase& drawn);

/// Whether the live slots suffice, by node where groups have homes.
[[nodiscard]] bool is_feasible(const PlanCase& drawn);
/// As plan_rebalance is to resolve it: groups have home nodes, strictly or with spill.
[[nodiscard]] bool is_by_group(const PlanCase& drawn);
/// Strictly.
[[nodiscard]] bool is_strict(const PlanCase& drawn);

}  // namespace trimtab::test
