// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/planner.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "brute_force.hpp"
#include "plan/row.hpp"
#include "plan_cases.hpp"
#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

PlanCase draw_feasible_case() {
  PlanCase drawn = draw_case();
  RC_PRE(is_feasible(drawn));
  return drawn;
}

/// The row a service would start with, if the plan's own rules allow it.
bool is_identity_allowed(const PlanCase& drawn, const Plan& plan, LayerId layer,
                         const std::vector<ExpertId>& identity) {
  const std::int32_t experts = drawn.loads.num_experts();
  if (!is_live(identity, experts, drawn.topology)) return false;
  if (count_duplicates(identity, drawn.topology) > plan.layers[layer.index()].duplicates_on_rank)
    return false;
  return plan.locality == Locality::none ||
         keeps_groups_together(identity, experts, drawn.options.num_groups, drawn.topology);
}

RC_GTEST_PROP(PlanRebalance, KeepsItsPromisesOrSaysInfeasible, ()) {
  const PlanCase drawn = draw_case();
  SerialExecutor executor;
  const Result<Plan> plan = plan_rebalance(drawn.loads, drawn.topology, drawn.options, executor);
  RC_CLASSIFY(is_feasible(drawn), "feasible");
  RC_CLASSIFY(is_feasible(drawn) && is_by_group(drawn), "feasible by group");
  RC_ASSERT(plan.has_value() == is_feasible(drawn));
  if (!plan) {
    RC_ASSERT(plan.error().code == Errc::infeasible);
  } else {
    RC_ASSERT(broken_promise(*plan, drawn.loads, drawn.topology, drawn.options) == "");
  }
}

RC_GTEST_PROP(PlanRebalance, KeepsGroupsInsideNodes, ()) {
  const PlanCase drawn = draw_feasible_case();
  const Plan plan = plan_of(drawn.loads, drawn.topology, drawn.options);
  RC_ASSERT((plan.locality == Locality::group_strict) == is_strict(drawn));
  RC_PRE(plan.locality == Locality::group_strict);
  for (const LayerReport& report : plan.layers) {
    if (report.is_dense) continue;
    RC_ASSERT(keeps_groups_together(plan.placement.layer(report.layer), drawn.loads.num_experts(),
                                    drawn.options.num_groups, drawn.topology));
  }
}

RC_GTEST_PROP(PlanRebalance, SpillsNoMoreThanAllowed, ()) {
  PlanCase drawn = draw_case();
  drawn.options.locality = Locality::group_spill;
  RC_PRE(is_feasible(drawn));
  const Plan plan = plan_of(drawn.loads, drawn.topology, drawn.options);
  for (const LayerReport& report : plan.layers) {
    if (report.is_dense) continue;
    RC_ASSERT(report.spill <= drawn.options.spill + 1e-12);
    const double least = least_spill(drawn.loads.layer(report.layer), plan.placement.layer(report.layer),
                                     drawn.options.num_groups, drawn.topology);
    RC_ASSERT(least <= report.spill + 1e-12);
  }
}

// One plan for several scenarios reports what the objective makes of the scenarios one by one.
RC_GTEST_PROP(PlanRebalance, ReportsTheObjectiveOverScenarios, ()) {
  const PlanCase drawn = draw_feasible_case();
  const std::vector<LoadMatrix> scenarios = draw_scenarios(drawn);
  SerialExecutor executor;
  const auto plan = plan_rebalance(scenarios, drawn.topology, drawn.options, executor);
  RC_ASSERT(plan.has_value());
  RC_ASSERT(check_live(plan->placement, drawn.topology).has_value());
  for (const LayerReport& report : plan->layers) {
    double worst = 1.0;
    double sum = 0.0;
    double loaded = 0.0;
    for (const LoadMatrix& scenario : scenarios) {
      if (scenario.is_dense(report.layer)) continue;
      const double one = imbalance_of(scenario, plan->placement, report.layer, drawn.topology);
      worst = std::max(worst, one);
      sum += one;
      loaded += 1.0;
    }
    RC_ASSERT(report.is_dense == (loaded == 0.0));
    if (report.is_dense) continue;
    const double expected = drawn.options.objective == Objective::worst ? worst : sum / loaded;
    RC_ASSERT(std::abs(report.imbalance - expected) <= 1e-9 * expected);
    RC_ASSERT(report.bound <= report.reached());
    RC_ASSERT(report.duplicates_on_rank == duplicates_in(plan->placement, report.layer, drawn.topology));
  }
}

// Where the identity keeps the plan's own rules (experts live, no more second copies, groups together), no
// rank of the plan is fuller than the fullest of the identity.
RC_GTEST_PROP(PlanRebalance, IsNeverFullerThanAnAllowedIdentity, ()) {
  const PlanCase drawn = draw_feasible_case();
  const Plan plan = plan_of(drawn.loads, drawn.topology, drawn.options);
  const auto identity = identity_row(drawn.loads.num_experts(), drawn.topology, true);
  for (LayerId layer : ids<LayerId>(drawn.loads.num_layers())) {
    if (plan.locality == Locality::group_spill) continue;    // other homes than those of the plan
    if (drawn.options.shares == ShareMode::exact) continue;  // the identity connects no ranks
    if (!is_identity_allowed(drawn, plan, layer, identity)) continue;
    const auto loads = drawn.loads.layer(layer);
    RC_ASSERT(max_pressure(loads, plan.placement.layer(layer), drawn.topology) <=
              max_pressure(loads, identity, drawn.topology) * (1.0 + 1e-12));
  }
}

RC_GTEST_PROP(PlanRebalance, GivesTheSameBytesOnAnyExecutor, ()) {
  const PlanCase drawn = draw_feasible_case();
  const Plan serial = plan_of(drawn.loads, drawn.topology, drawn.options);
  ThreadedExecutor executor(3);
  const auto threaded = plan_rebalance(drawn.loads, drawn.topology, drawn.options, executor).value();
  RC_ASSERT(threaded.placement == serial.placement);
  for (std::size_t i = 0; i < serial.layers.size(); ++i) {
    RC_ASSERT(threaded.layers[i].imbalance == serial.layers[i].imbalance);
    RC_ASSERT(threaded.layers[i].bound == serial.layers[i].bound);
  }
}

RC_GTEST_PROP(PlanRebalance, PlansALayerAlikeWhateverTheOthersAre, ()) {
  const PlanCase drawn = draw_feasible_case();
  const Plan whole = plan_of(drawn.loads, drawn.topology, drawn.options);
  const LayerId last{drawn.loads.num_layers() - 1};
  const auto row = drawn.loads.layer(last);
  const LoadMatrix alone = loads_of({1, drawn.loads.num_experts()}, {row.begin(), row.end()});
  const Plan single = plan_of(alone, drawn.topology, drawn.options);
  const auto expected = whole.placement.layer(last);
  RC_ASSERT(std::equal(expected.begin(), expected.end(), single.placement.layer(LayerId{0}).begin()));
}

// vllm-project/vllm#22167: loads came multiplied by the number of data-parallel ranks.
RC_GTEST_PROP(PlanRebalance, DoesNotDependOnTheScaleOfTheLoads, ()) {
  const PlanCase drawn = draw_feasible_case();
  std::vector<double> scaled;
  for (LayerId layer : ids<LayerId>(drawn.loads.num_layers())) {
    for (double load : drawn.loads.layer(layer)) scaled.push_back(load * 4096.0);
  }
  const LoadMatrix larger = loads_of({drawn.loads.num_layers(), drawn.loads.num_experts()}, scaled);
  RC_ASSERT(plan_of(larger, drawn.topology, drawn.options).placement ==
            plan_of(drawn.loads, drawn.topology, drawn.options).placement);
}

}  // namespace
}  // namespace trimtab::test
