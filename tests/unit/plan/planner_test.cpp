// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/planner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr LayerId first_layer{0};

void expect_refused(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options, Errc code,
                    const char* message) {
  SerialExecutor executor;
  const Result<Plan> plan = plan_rebalance(loads, topology, options, executor);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, code);
  EXPECT_THAT(plan.error().message, HasSubstr(message));
}

void expect_sound(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options = {}) {
  EXPECT_EQ(broken_promise(plan_of(loads, topology, options), loads, topology, options), "");
}

LoadMatrix one_layer(std::vector<double> loads) {
  const auto num_experts = static_cast<std::int32_t>(loads.size());
  return loads_of({1, num_experts}, std::move(loads));
}

// deepseek-ai/EPLB#22: both ranks of the first example held an expert twice.
TEST(PlanRebalance, PutsNoExpertTwiceOnARank) {
  const auto small = one_layer({17, 13, 10, 6});
  expect_sound(small, Topology::make_uniform(2, 1, 6).value());
  EXPECT_EQ(plan_of(small, Topology::make_uniform(2, 1, 6).value()).layers[0].duplicates_on_rank, 0);
  const auto wide = one_layer({17, 13, 10, 6, 6, 1, 2, 1});
  expect_sound(wide, Topology::make_uniform(4, 1, 12).value());
  EXPECT_EQ(plan_of(wide, Topology::make_uniform(4, 1, 12).value()).layers[0].duplicates_on_rank, 0);
}

// deepseek-ai/EPLB gives expert 0 all 33 copies when nothing was counted.
TEST(PlanRebalance, SpreadsZeroLoadEvenly) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const Plan plan = plan_of(uniform_loads({1, 256}, 0.0), topology);
  EXPECT_THAT(replica_counts(plan.placement, first_layer), Each(Le(2U)));
}

TEST(PlanRebalance, SpreadsOverflowOverExpertsWithoutLoadEvenly) {
  std::vector<double> loads(64, 0.0);
  loads[5] = 100.0;
  const Plan plan = plan_of(one_layer(loads), Topology::make_uniform(8, 1, 96).value());
  auto counts = replica_counts(plan.placement, first_layer);
  EXPECT_EQ(counts[5], 8U);
  counts.erase(counts.begin() + 5);
  EXPECT_THAT(counts, Each(Le(2U)));
}

TEST(PlanRebalance, KeepsDenseRowsAsIdentity) {
  const auto loads = loads_of({3, 4}, {0, 0, 0, 0, 9, 1, 1, 1, 0, 0, 0, 0});
  const Plan plan = plan_of(loads, Topology::make_uniform(2, 1, 6).value());
  for (LayerId layer : {LayerId{0}, LayerId{2}}) {
    EXPECT_TRUE(plan.layers[layer.index()].is_dense);
    EXPECT_EQ(plan.layers[layer.index()].bound, 1.0);
    for (SlotId slot : ids<SlotId>(6)) {
      EXPECT_EQ(plan.placement.expert_at(layer, slot).value(), slot.value() % 4);
    }
  }
  EXPECT_FALSE(plan.layers[1].is_dense);
}

// vllm-project/vllm#41204, sglang's elasticity_aware: the plan must not use ranks that are gone.
TEST(PlanRebalance, KeepsDeadRanksVacantAndDenseRowsLive) {
  const auto topology =
      Topology::make({{NodeId{0}, 3}, {NodeId{0}, 3, 1.0, false}, {NodeId{0}, 3}, {NodeId{0}, 3}}).value();
  const auto loads = loads_of({2, 6}, {0, 0, 0, 0, 0, 0, 50, 20, 9, 8, 1, 1});
  expect_sound(loads, topology);
  const Plan plan = plan_of(loads, topology);
  for (SlotId slot : topology.slots_of(Rank{1})) {
    EXPECT_EQ(plan.placement.expert_at(LayerId{1}, slot), no_expert);
  }
}

TEST(PlanRebalance, PlansADenseRowThatIdentityWouldLose) {
  const auto topology = Topology::make({{NodeId{0}, 2}, {NodeId{0}, 2, 1.0, false}, {NodeId{0}, 2}}).value();
  const Plan plan = plan_of(uniform_loads({1, 4}, 0.0), topology);
  EXPECT_TRUE(check_live(plan.placement, topology).has_value());
  EXPECT_TRUE(plan.layers[0].is_dense);
}

TEST(PlanRebalance, TakesRaggedSlotsSpeedsAndSlotlessRanks) {
  const auto topology = Topology::make({{NodeId{0}, 0},
                                        {NodeId{0}, 5, 2.0},
                                        {NodeId{0}, 1, 0.5},
                                        {NodeId{1}, 7, 1.0, false},
                                        {NodeId{1}, 4}})
                            .value();
  expect_sound(lognormal_loads({4, 8}, 1.0, 1), topology);
}

TEST(PlanRebalance, TakesOneRank) {
  const auto topology = Topology::make_uniform(1, 1, 8).value();
  const auto loads = lognormal_loads({2, 8}, 1.0, 2);
  expect_sound(loads, topology);
  EXPECT_EQ(plan_of(loads, topology).layers[0].imbalance, 1.0);
}

TEST(PlanRebalance, TakesAsManySlotsAsExperts) {
  expect_sound(lognormal_loads({3, 32}, 1.0, 3), Topology::make_uniform(8, 1, 32).value());
}

TEST(PlanRebalance, SpreadsOneExpertThatHasAllTheLoadOverAllRanks) {
  std::vector<double> loads(16, 0.0);
  loads[3] = 1000.0;
  const Plan plan = plan_of(one_layer(loads), Topology::make_uniform(8, 1, 24).value());
  EXPECT_EQ(plan.placement.replicas(first_layer, ExpertId{3}).size(), 8U);
  EXPECT_DOUBLE_EQ(plan.layers[0].imbalance, 1.0);
}

TEST(PlanRebalance, TakesTheLargestAndSmallestNumbers) {
  const auto topology = Topology::make_uniform(2, 1, 8).value();
  expect_sound(one_layer({1e307, 5e306, 1.0, 5e-324, 0.0}), topology);
  expect_sound(one_layer({5e-324, 5e-324, 5e-324, 0.0, 0.0}), topology);
}

TEST(PlanRebalance, DuplicatesOnlyWhereARankIsWiderThanTheExperts) {
  const auto topology = Topology::make_uniform(2, 1, 12).value();
  const auto loads = one_layer({40, 30, 20, 10});
  expect_sound(loads, topology);
  const LayerReport report = plan_of(loads, topology).layers[0];
  EXPECT_EQ(report.duplicates_on_rank, 4);
  EXPECT_DOUBLE_EQ(report.imbalance, 1.0);
}

TEST(PlanRebalance, LeavesSlotsVacantRatherThanDuplicateWhenAllowed) {
  const auto topology = Topology::make_uniform(2, 1, 12).value();
  const PlanOptions options{.allow_vacant = true};
  const auto loads = one_layer({40, 30, 20, 10});
  expect_sound(loads, topology, options);
  const Plan plan = plan_of(loads, topology, options);
  EXPECT_EQ(plan.layers[0].duplicates_on_rank, 0);
  EXPECT_THAT(replica_counts(plan.placement, first_layer), ElementsAre(2U, 2U, 2U, 2U));
}

TEST(PlanRebalance, KeepsGroupsInsideNodes) {
  const auto topology = Topology::make_uniform(8, 4, 72).value();
  const PlanOptions options{.num_groups = 8};
  const auto loads = outlier_loads({5, 64}, 0.6, 4);
  expect_sound(loads, topology, options);
  const Plan plan = plan_of(loads, topology, options);
  ASSERT_EQ(plan.locality, Locality::group_strict);
  for (LayerId layer : ids<LayerId>(5)) {
    for (ExpertId e : ids<ExpertId>(64)) {
      const ExpertId head{e.value() / 8 * 8};
      const SlotId home = plan.placement.replicas(layer, head)[0];
      for (SlotId slot : plan.placement.replicas(layer, e)) {
        EXPECT_EQ(topology.node_of(topology.rank_of(slot)), topology.node_of(topology.rank_of(home)));
      }
    }
  }
}

TEST(PlanRebalance, ResolvesAutomaticLocality) {
  const auto loads = uniform_loads({1, 12}, 1.0);
  const auto two_nodes = Topology::make_uniform(4, 2, 12).value();
  EXPECT_EQ(plan_of(loads, two_nodes).locality, Locality::none);
  EXPECT_EQ(plan_of(loads, two_nodes, {.num_groups = 4}).locality, Locality::group_strict);
  EXPECT_EQ(plan_of(loads, two_nodes, {.num_groups = 3}).locality, Locality::none);
  EXPECT_EQ(plan_of(loads, two_nodes, {.locality = Locality::none, .num_groups = 4}).locality,
            Locality::none);
}

TEST(PlanRebalance, RefusesGroupsThatDoNotFit) {
  const auto loads = uniform_loads({1, 12}, 1.0);
  const auto topology = Topology::make_uniform(4, 2, 12).value();
  expect_refused(loads, topology, {.num_groups = 5}, Errc::invalid_argument, "5 expert groups");
  expect_refused(loads, topology, {.num_groups = 0}, Errc::invalid_argument, "0 expert groups");
  expect_refused(loads, topology, {.locality = Locality::group_strict, .num_groups = 3},
                 Errc::invalid_argument, "2 nodes do not divide 3 expert groups");
}

TEST(PlanRebalance, RefusesFewerLiveSlotsThanExperts) {
  const auto loads = uniform_loads({1, 12}, 1.0);
  expect_refused(loads, Topology::make_uniform(2, 1, 11).value(), {}, Errc::infeasible,
                 "11 live slots < 12 experts");
  const auto half_dead = Topology::make({{NodeId{0}, 6}, {NodeId{0}, 6, 1.0, false}}).value();
  expect_refused(loads, half_dead, {}, Errc::infeasible, "6 live slots < 12 experts");
}

TEST(PlanRebalance, RefusesANodeTooSmallForItsGroups) {
  const auto topology = Topology::make({{NodeId{0}, 9}, {NodeId{1}, 5}}).value();
  expect_refused(uniform_loads({1, 12}, 1.0), topology, {.num_groups = 4}, Errc::infeasible,
                 "node 1: 5 live slots < 6 experts");
}

// vllm-project/vllm#37656: a fullest rank of 232 by the default policy for these loads. The optimum over all
// counts and places is 196.67, the mean 181.25.
TEST(PlanRebalance, StaysNearTheOptimumOnAPublishedExample) {
  const auto loads = one_layer({600, 560, 120, 120, 20, 10, 10, 10});
  const Plan plan = plan_of(loads, Topology::make_uniform(8, 1, 16).value());
  EXPECT_LE(plan.layers[0].imbalance, 196.67 / 181.25 + 1e-4);
  EXPECT_LE(plan.layers[0].bound, 196.67 / 181.25);
}

TEST(Locality, HasNames) {
  EXPECT_EQ(to_string(Locality::automatic), "automatic");
  EXPECT_EQ(to_string(Locality::none), "none");
  EXPECT_EQ(to_string(Locality::group_strict), "group-strict");
}

}  // namespace
}  // namespace trimtab::test
