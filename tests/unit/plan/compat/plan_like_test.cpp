// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/compat.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

constexpr CompatPlanner all_planners[] = {CompatPlanner::deepseek, CompatPlanner::trtllm,
                                          CompatPlanner::vllm};

Topology uniform(std::int32_t ranks, std::int32_t nodes, std::int32_t slots) {
  return Topology::make_uniform(ranks, nodes, slots).value();
}

Plan made_by(CompatPlanner planner, const LoadMatrix& loads, const Topology& topology,
             const PlanOptions& options = {}) {
  SerialExecutor executor;
  return plan_like(planner, loads, topology, options, executor).value();
}

std::string refusal_of(CompatPlanner planner, const LoadMatrix& loads, const Topology& topology,
                       const PlanOptions& options = {}) {
  SerialExecutor executor;
  const auto plan = plan_like(planner, loads, topology, options, executor);
  return plan ? "not refused" : plan.error().message;
}

class PlanLike : public testing::TestWithParam<CompatPlanner> {};

INSTANTIATE_TEST_SUITE_P(Planners, PlanLike, testing::ValuesIn(all_planners),
                         [](const auto& planner) { return std::string(to_string(planner.param)); });

TEST_P(PlanLike, ReportsWhatItsPlacementIs) {
  const LoadMatrix loads = outlier_loads({5, 64}, 0.7, 9);
  const Topology topology = uniform(8, 2, 80);
  const Plan plan = made_by(GetParam(), loads, topology, {.num_groups = 4});
  ASSERT_TRUE(check_live(plan.placement, topology));
  const Plan native = plan_of(loads, topology, {.locality = plan.locality, .num_groups = 4});
  ASSERT_EQ(plan.layers.size(), 5U);
  for (const LayerReport& report : plan.layers) {
    EXPECT_FALSE(report.is_dense);
    EXPECT_DOUBLE_EQ(report.imbalance, imbalance_of(loads, plan.placement, report.layer, topology));
    EXPECT_EQ(report.duplicates_on_rank, duplicates_in(plan.placement, report.layer, topology));
    EXPECT_LE(report.bound, native.layers[report.layer.index()].imbalance * (1.0 + 1e-12));
    EXPECT_DOUBLE_EQ(report.imbalance_before, native.layers[report.layer.index()].imbalance_before);
  }
}

TEST_P(PlanLike, PlansRowsWithoutLoad) {
  const Plan plan = made_by(GetParam(), uniform_loads({1, 4}, 0.0), uniform(2, 1, 6));
  EXPECT_FALSE(plan.layers[0].is_dense);
  EXPECT_EQ(plan.layers[0].imbalance, 1.0);
  EXPECT_EQ(plan.layers[0].bound, 1.0);
}

TEST_P(PlanLike, GivesTheSameOnAnyNumberOfThreads) {
  const LoadMatrix loads = zipf_loads({9, 48}, 0.8, 4);
  const Topology topology = uniform(12, 3, 60);
  const Plan serial = made_by(GetParam(), loads, topology, {.num_groups = 6});
  for (std::size_t threads : {1U, 2U, 7U}) {
    ThreadedExecutor executor(threads);
    const Plan plan = plan_like(GetParam(), loads, topology, {.num_groups = 6}, executor).value();
    EXPECT_EQ(plan.placement, serial.placement);
  }
}

// vllm-project/vllm PR 22167: loads came in multiplied by the number of data-parallel ranks.
TEST_P(PlanLike, DoesNotDependOnTheScaleOfLoads) {
  const LoadMatrix loads = lognormal_loads({3, 32}, 0.8, 6);
  std::vector<double> scaled;
  for (LayerId layer : ids<LayerId>(3)) {
    for (double load : loads.layer(layer)) scaled.push_back(load * 8.0);
  }
  const Topology topology = uniform(8, 1, 40);
  EXPECT_EQ(made_by(GetParam(), loads_of({3, 32}, scaled), topology).placement,
            made_by(GetParam(), loads, topology).placement);
}

TEST_P(PlanLike, RefusesRanksThatDiffer) {
  const LoadMatrix loads = uniform_loads({1, 4}, 1.0);
  const std::string name(to_string(GetParam()));
  EXPECT_EQ(refusal_of(GetParam(), loads, uniform(4, 1, 6)),
            name + " needs equally many slots on each rank: rank 0 has 2, rank 2 has 1");
  const auto with = [](RankInfo second) { return Topology::make({{NodeId{0}, 3}, second}).value(); };
  EXPECT_EQ(refusal_of(GetParam(), loads, with({NodeId{0}, 3, 2.0})),
            name + " knows ranks of equal speed only: rank 0 has 1, rank 1 has 2");
  EXPECT_EQ(refusal_of(GetParam(), loads, with({NodeId{0}, 3, 1.0, false})),
            name + " knows live ranks only: rank 1 is dead");
}

TEST_P(PlanLike, RefusesFewerSlotsThanExperts) {
  SerialExecutor executor;
  const auto plan = plan_like(GetParam(), uniform_loads({1, 9}, 1.0), uniform(4, 1, 8), {}, executor);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Errc::infeasible);
  EXPECT_EQ(plan.error().message, "8 slots < 9 experts: every expert needs one");
}

TEST_P(PlanLike, RefusesVacantSlots) {
  EXPECT_EQ(refusal_of(GetParam(), uniform_loads({1, 4}, 1.0), uniform(2, 1, 4), {.allow_vacant = true}),
            std::string(to_string(GetParam())) + " fills every slot: vacant slots cannot be had");
}

TEST_P(PlanLike, RefusesSpillAndTheExactSplit) {
  const std::string refusal =
      std::string(to_string(GetParam())) + " plans for even shares, without spill between nodes";
  const auto loads = uniform_loads({1, 4}, 1.0);
  EXPECT_EQ(refusal_of(GetParam(), loads, uniform(2, 1, 4), {.locality = Locality::group_spill}), refusal);
  EXPECT_EQ(refusal_of(GetParam(), loads, uniform(2, 1, 4), {.shares = ShareMode::exact}), refusal);
}

TEST(PlanLike, IsByGroupWhenNodesDivideGroups) {
  const LoadMatrix loads = lognormal_loads({2, 64}, 1.0, 8);
  const Topology topology = uniform(16, 4, 96);
  for (CompatPlanner planner : {CompatPlanner::deepseek, CompatPlanner::vllm}) {
    EXPECT_EQ(made_by(planner, loads, topology, {.num_groups = 8}).locality, Locality::group_strict);
    EXPECT_EQ(made_by(planner, loads, topology, {.num_groups = 6 + 4}).locality, Locality::none);
    EXPECT_EQ(made_by(planner, loads, topology, {.locality = Locality::none, .num_groups = 8}).locality,
              Locality::none);
  }
  EXPECT_EQ(made_by(CompatPlanner::trtllm, loads, topology, {.num_groups = 8}).locality, Locality::none);
}

TEST(PlanLike, IsThePlanOfRebalanceExperts) {
  const LoadMatrix loads = lognormal_loads({3, 64}, 1.0, 8);
  SerialExecutor executor;
  const EplbPlan tensors = rebalance_experts(loads, {96, 8, 4, 16}, executor).value();
  const Plan plan = made_by(CompatPlanner::deepseek, loads, uniform(16, 4, 96), {.num_groups = 8});
  EXPECT_EQ(Placement::make(3, 96, 64, tensors.physical_to_logical).value(), plan.placement);
}

TEST(PlanLike, HasTheBalanceOfDeepseekUnderVllm) {
  const LoadMatrix loads = lognormal_loads({6, 256}, 1.0, 2);
  const Topology topology = uniform(32, 4, 288);
  const Plan deepseek = made_by(CompatPlanner::deepseek, loads, topology, {.num_groups = 8});
  const Plan vllm = made_by(CompatPlanner::vllm, loads, topology, {.num_groups = 8});
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(vllm.layers[i].imbalance, deepseek.layers[i].imbalance, 1e-4);
}

// deepseek-ai/EPLB#22: two copies of an expert on one rank. The native planner never makes them.
TEST(PlanLike, ShowsTheSecondCopiesThatDeepseekMakes) {
  const LoadMatrix loads = loads_of({1, 4}, {17, 13, 10, 6});
  const Topology topology = uniform(2, 1, 6);
  EXPECT_EQ(made_by(CompatPlanner::deepseek, loads, topology).layers[0].duplicates_on_rank, 2);
  EXPECT_EQ(plan_of(loads, topology).layers[0].duplicates_on_rank, 0);
}

TEST(PlanLike, RefusesGroupsThatCannotStayTogether) {
  const LoadMatrix loads = uniform_loads({1, 12}, 1.0);
  const PlanOptions strict{.locality = Locality::group_strict, .num_groups = 3};
  EXPECT_EQ(refusal_of(CompatPlanner::trtllm, loads, uniform(4, 1, 12), strict),
            "trtllm knows no groups: group-strict cannot be had");
  EXPECT_EQ(refusal_of(CompatPlanner::vllm, loads, uniform(4, 2, 12), strict),
            "vllm plans by group only when nodes divide groups: 2 nodes, 3 groups");
  EXPECT_EQ(refusal_of(CompatPlanner::deepseek, loads, uniform(4, 1, 12), {.num_groups = 5}),
            "5 expert groups do not divide 12 experts");
}

TEST(PlanLike, RefusesRanksThatAreNotInOrderOfNodes) {
  const auto topology =
      Topology::make({{NodeId{0}, 3}, {NodeId{1}, 3}, {NodeId{0}, 3}, {NodeId{1}, 3}}).value();
  EXPECT_EQ(refusal_of(CompatPlanner::deepseek, uniform_loads({1, 12}, 1.0), topology, {.num_groups = 2}),
            "deepseek numbers ranks node by node: rank 1 lies on node 1, not 0");
}

}  // namespace
}  // namespace trimtab::test
