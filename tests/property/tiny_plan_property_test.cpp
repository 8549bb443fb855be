// SPDX-License-Identifier: Apache-2.0
//
// Against every placement there is, for up to 4 experts in 6 slots on 3 ranks.
#include <trimtab/plan/planner.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "brute_force.hpp"
#include "plan/bound.hpp"
#include "plan/pigeonhole.hpp"
#include "plan/replicate.hpp"
#include "plan/row.hpp"
#include "plan_cases.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

constexpr double rounding = 1e-12;
constexpr double infinity = std::numeric_limits<double>::infinity();

PlanCase draw_tiny_case() {
  PlanCase drawn = draw_case({.layers = 1,
                              .nodes = 2,
                              .ranks_per_node = 3,
                              .slots_per_rank = 4,
                              .groups_per_node = 2,
                              .experts_per_group = 4});
  RC_PRE(is_feasible(drawn) && drawn.loads.num_experts() <= 4);
  RC_PRE(drawn.topology.num_slots() <= 6 && drawn.topology.num_ranks() <= 3);
  return drawn;
}

Region whole(const PlanCase& drawn) {
  Region region{{}, usable_ranks(drawn.topology)};
  for (ExpertId e : ids<ExpertId>(drawn.loads.num_experts())) region.experts.push_back(e);
  return region;
}

bool keeps_locality(const PlanCase& drawn, std::span<const ExpertId> row) {
  const std::int32_t groups = drawn.options.num_groups;
  if (is_strict(drawn)) return keeps_groups_together(row, drawn.loads.num_experts(), groups, drawn.topology);
  if (!is_by_group(drawn)) return true;
  return least_spill(drawn.loads.layer(LayerId{0}), row, groups, drawn.topology) <=
         drawn.options.spill + rounding;
}

/// Over all rows that keep the locality of the case, second copies and vacant slots allowed.
double least_pressure(const PlanCase& drawn, bool under_locality) {
  double least = infinity;
  for_each_row(drawn.loads.num_experts(), drawn.topology, [&](std::span<const ExpertId> row) {
    if (under_locality && !keeps_locality(drawn, row)) return;
    least = std::min(least, max_pressure(drawn.loads.layer(LayerId{0}), row, drawn.topology));
  });
  return least;
}

RC_GTEST_PROP(TinyPlan, LiesBetweenOptimumAndBound, ()) {
  const PlanCase drawn = draw_tiny_case();
  const Plan plan = plan_of(drawn.loads, drawn.topology, drawn.options);
  RC_PRE(!plan.layers[0].is_dense);
  const double mean = drawn.loads.total(LayerId{0}) / drawn.topology.total_speed();
  const double optimum = least_pressure(drawn, true) / mean;
  RC_CLASSIFY(is_by_group(drawn), "by group");
  RC_CLASSIFY(plan.layers[0].imbalance <= optimum * (1.0 + rounding), "optimal");
  RC_CLASSIFY(plan.layers[0].bound >= optimum * (1.0 - rounding), "bound is exact");
  RC_ASSERT(plan.layers[0].bound <= optimum * (1.0 + rounding));
  RC_ASSERT(plan.layers[0].imbalance >= optimum * (1.0 - rounding));
}

// The report clamps its bound to the imbalance reached; the bound itself must not need that.
RC_GTEST_PROP(TinyPlan, BoundIsBelowTheOptimumUnclamped, ()) {
  const PlanCase drawn = draw_tiny_case();
  const double bound = pressure_bound(drawn.loads.layer(LayerId{0}), whole(drawn), drawn.topology);
  RC_ASSERT(bound <= least_pressure(drawn, false) * (1.0 + rounding));
}

// From the mean, up to the best placement there is and a little beyond, so that a bound too high would show.
RC_GTEST_PROP(TinyPlan, PigeonholeBoundIsBelowTheOptimum, ()) {
  const auto num_ranks = *rc::gen::inRange(1, 4);
  const auto slots_per_rank = *rc::gen::inRange(1, 7 / num_ranks);
  const auto num_experts = *rc::gen::inRange(1, std::min(4, num_ranks * slots_per_rank) + 1);
  const auto topology = Topology::make_uniform(num_ranks, 1, num_ranks * slots_per_rank).value();
  const auto loads = *rc::gen::container<std::vector<double>>(
      static_cast<std::size_t>(num_experts),
      rc::gen::map(rc::gen::inRange(0, 30), [](int i) { return i / 3.0; }));
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  RC_PRE(total > 0.0);
  Region region{{}, usable_ranks(topology)};
  for (ExpertId e : ids<ExpertId>(num_experts)) region.experts.push_back(e);
  double optimum = infinity;
  for_each_row(num_experts, topology, [&](std::span<const ExpertId> row) {
    optimum = std::min(optimum, max_pressure(loads, row, topology));
  });
  const double mean = total / num_ranks;
  const double bound = pigeonhole_bound(loads, region, slots_per_rank, mean, optimum * 1.5);
  RC_CLASSIFY(bound > mean * 1.001, "above the mean");
  RC_ASSERT(bound <= optimum * (1.0 + 1e-8));
}

RC_GTEST_PROP(TinyPlan, CountsHaveTheSmallestPossibleLargestReplica, ()) {
  const PlanCase drawn = draw_tiny_case();
  const auto loads = drawn.loads.layer(LayerId{0});
  const auto counts = count_replicas(loads, whole(drawn), drawn.topology);
  double largest = 0.0;
  for (std::size_t e = 0; e < loads.size(); ++e) largest = std::max(largest, loads[e] / counts[e]);
  double least = infinity;
  for_each_row(drawn.loads.num_experts(), drawn.topology, [&](std::span<const ExpertId> row) {
    if (has_no_duplicates(row, drawn.topology))
      least = std::min(least, max_share(loads, row, drawn.topology));
  });
  RC_ASSERT(std::abs(largest - least) <= rounding * least);
}

}  // namespace
}  // namespace trimtab::test
