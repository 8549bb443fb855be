// SPDX-License-Identifier: Apache-2.0
//
// Faults that users of other planners reported in public, each as a test of ours: where copies lie.
// public_reports_input_test.cpp has those about what a planner is given.
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/planner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

using ::testing::Each;
using ::testing::Ge;

constexpr LayerId first_layer{0};

LoadMatrix one_layer(std::vector<double> loads) {
  const auto num_experts = static_cast<std::int32_t>(loads.size());
  return loads_of({1, num_experts}, std::move(loads));
}

Plan sound_plan(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options = {}) {
  Plan plan = plan_of(loads, topology, options);
  EXPECT_EQ(broken_promise(plan, loads, topology, options), "");
  return plan;
}

std::int32_t count_duplicates(const Plan& plan) {
  std::int32_t duplicates = 0;
  for (const LayerReport& report : plan.layers) duplicates += report.is_dense ? 0 : report.duplicates_on_rank;
  return duplicates;
}

double worst_imbalance(const Plan& plan) {
  double worst = 1.0;
  for (const LayerReport& report : plan.layers)
    worst = std::max(worst, report.is_dense ? 1.0 : report.imbalance);
  return worst;
}

/// Loads of u^8 for u even over (0, 1): steeper than lognormal, flatter than Zipf.
LoadMatrix eighth_power_loads(LoadShape shape) {
  std::vector<double> values;
  for (std::int32_t i = 0; i < shape.num_layers * shape.num_experts; ++i) {
    const double u = std::fmod(0.618033988749895 * (i + 1), 1.0);
    values.push_back(std::round(1e6 * std::pow(u, 8.0)));
  }
  return loads_of(shape, std::move(values));
}

// deepseek-ai/EPLB#22: the same expert twice on a rank, 6 to 11 % of the ranks by group, 1 to 2 % without.
// vllm-project/vllm-ascend#9151: an expert twice on a card; the old table was kept, yet accuracy broke.
TEST(PublicReports, NoExpertLiesTwiceOnARank) {
  EXPECT_EQ(count_duplicates(sound_plan(one_layer({17, 13, 10, 6}), Topology::make_uniform(2, 1, 6).value())),
            0);
  EXPECT_EQ(count_duplicates(
                sound_plan(one_layer({17, 13, 10, 6, 6, 1, 2, 1}), Topology::make_uniform(4, 1, 12).value())),
            0);
  const LoadShape shape{8, 256};
  for (const LoadMatrix& loads :
       {lognormal_loads(shape, 1.0, 22), zipf_loads(shape, 1.0, 22), eighth_power_loads(shape)}) {
    const auto topology = Topology::make_uniform(32, 4, 288).value();
    EXPECT_EQ(count_duplicates(sound_plan(loads, topology)), 0);
    EXPECT_EQ(count_duplicates(sound_plan(loads, topology, {.num_groups = 8})), 0);
    const auto two_nodes = Topology::make_uniform(32, 2, 288).value();
    EXPECT_EQ(count_duplicates(sound_plan(loads, two_nodes, {.num_groups = 16})), 0);
  }
}

// deepseek-ai/EPLB#14: without groups the copies were counted but not packed; Zipf loads stayed 3.5 times the
// mean.
TEST(PublicReports, CopiesArePackedWithoutGroupsToo) {
  const Plan plan = sound_plan(zipf_loads({8, 256}, 1.0, 14), Topology::make_uniform(32, 4, 288).value());
  EXPECT_EQ(plan.locality, Locality::none);
  EXPECT_LE(worst_imbalance(plan), 1.02);
}

// deepseek-ai/EPLB#24: what balance between nodes is to be had. The fullest node is as full as the best
// packing of groups makes it, and the bound says that no plan by group is better.
TEST(PublicReports, NodesAreAsEvenAsWholeGroupsAllow) {
  const auto topology = Topology::make_uniform(8, 4, 40).value();
  std::vector<double> loads;
  for (double group : {50.0, 40.0, 30.0, 20.0, 10.0, 10.0, 10.0, 10.0}) loads.insert(loads.end(), 4, group);
  const Plan plan = sound_plan(one_layer(loads), topology, {.num_groups = 8});
  EXPECT_DOUBLE_EQ(plan.layers[0].bound, 60.0 / 45.0);  // 50 with 10, out of 180 on four nodes
  EXPECT_LE(plan.layers[0].imbalance, 1.01 * plan.layers[0].bound);
}

// vllm-project/vllm#52556: 8, 32 and 144 ranks, loads that are zero or equal.
TEST(PublicReports, ZeroAndEqualLoadsArePlannedOnAnyNumberOfRanks) {
  for (const std::int32_t ranks : {8, 32, 144}) {
    const auto topology = Topology::make_uniform(ranks, 1, 288).value();
    for (const double load : {0.0, 1.0, 12345.0}) {
      const Plan plan = sound_plan(uniform_loads({2, 256}, load), topology);
      const auto counts = replica_counts(plan.placement, first_layer);
      EXPECT_EQ(*std::max_element(counts.begin(), counts.end()), 2U);
    }
  }
}

// vllm-project/vllm#18343 (review): hardly any number of redundant slots was legal, and copies met on a rank.
TEST(PublicReports, AnyNumberOfRedundantSlotsIsLegal) {
  const auto loads = lognormal_loads({2, 30}, 1.0, 18343);
  for (std::int32_t redundant = 0; redundant <= 42; ++redundant) {
    for (const std::int32_t ranks : {3, 7, 8}) {
      const auto topology = Topology::make_uniform(ranks, 1, 30 + redundant).value();
      EXPECT_EQ(count_duplicates(sound_plan(loads, topology)), 0) << redundant << " on " << ranks;
    }
  }
}

// vllm-project/vllm#40278: no expert could have more than 1023 redundant copies.
TEST(PublicReports, AnExpertMayHaveThousandsOfCopies) {
  std::vector<double> loads(8, 1.0);
  loads[3] = 1e6;
  const auto topology = Topology::make_uniform(2048, 1, 2055).value();
  const Plan plan = sound_plan(one_layer(loads), topology);
  EXPECT_GE(plan.placement.replicas(first_layer, ExpertId{3}).size(), 2047U);
}

// vllm-project/vllm#39942, #41204: plans must leave out ranks that are dead, and need no copy there.
TEST(PublicReports, DeadRanksHoldNothingAndNoExpertIsLostWithThem) {
  std::vector<RankInfo> ranks(8, RankInfo{NodeId{0}, 5});
  ranks[2].is_alive = ranks[5].is_alive = false;
  const auto topology = Topology::make(ranks).value();
  const Plan plan = sound_plan(lognormal_loads({4, 26}, 1.0, 39942), topology);
  EXPECT_TRUE(check_live(plan.placement, topology).has_value());
  for (SlotId slot : ids<SlotId>(topology.num_slots())) {
    EXPECT_EQ(plan.placement.expert_at(first_layer, slot) == no_expert, !topology.is_alive(slot));
  }
}

// vllm-project/vllm#38862: after a scale-down to ranks 0, 2 and 3 every expert lived, but loads were not
// level.
TEST(PublicReports, RanksThatAreLeftAreLevelToo) {
  std::vector<RankInfo> ranks(4, RankInfo{NodeId{0}, 12});
  ranks[1].is_alive = false;
  const Plan plan = sound_plan(lognormal_loads({6, 24}, 0.7, 38862), Topology::make(ranks).value());
  EXPECT_LE(worst_imbalance(plan), 1.02);
}

// alibaba/rtp-llm#681 (review): slots of several inactive ranks were put in the wrong place.
TEST(PublicReports, AnySetOfDeadRanksStaysInItsPlace) {
  const auto loads = lognormal_loads({1, 10}, 1.0, 681);
  for (unsigned dead = 0; dead < 1U << 6; ++dead) {
    std::vector<RankInfo> ranks(6, RankInfo{NodeId{0}, 4});
    for (unsigned r = 0; r < 6; ++r) ranks[r].is_alive = (dead >> r & 1U) == 0;
    if (std::count_if(ranks.begin(), ranks.end(), [](const RankInfo& r) { return r.is_alive; }) < 3) continue;
    const auto topology = Topology::make(ranks).value();
    const Plan plan = sound_plan(loads, topology);
    for (SlotId slot : ids<SlotId>(24)) {
      EXPECT_EQ(plan.placement.expert_at(first_layer, slot) == no_expert, !topology.is_alive(slot));
    }
  }
}

// vllm-project/vllm-ascend#5311: the last card was pointed to experts that do not exist.
TEST(PublicReports, TheLastRankHoldsExpertsThatExist) {
  for (const std::int32_t slots : {64, 65, 71, 72, 80}) {
    const auto topology = Topology::make_uniform(8, 1, slots).value();
    const Plan plan = sound_plan(zipf_loads({1, 64}, 1.0, 5311), topology);
    for (SlotId slot : topology.slots_of(Rank{7})) {
      EXPECT_TRUE(ids<ExpertId>(64).contains(plan.placement.expert_at(first_layer, slot)));
    }
  }
}

// vllm-project/vllm-ascend#9239: copies gathered on the last ranks.
TEST(PublicReports, CopiesDoNotGatherOnSomeRanks) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const Plan plan = sound_plan(uniform_loads({1, 256}, 100.0), topology);
  EXPECT_DOUBLE_EQ(plan.layers[0].imbalance, 1.0);
  for (Rank rank : ids<Rank>(32)) {
    std::int32_t copies = 0;
    for (SlotId slot : topology.slots_of(rank)) {
      copies += plan.placement.replicas(first_layer, plan.placement.expert_at(first_layer, slot)).size() > 1
                    ? 1
                    : 0;
    }
    EXPECT_EQ(copies, 2);
  }
}

// vllm-project/vllm-ascend#3042 (review): an expert without a replica was divided by.
TEST(PublicReports, EveryExpertHasAReplicaWhateverItsLoad) {
  std::vector<double> loads(40, 0.0);
  loads[0] = 1.0;
  const Plan plan = sound_plan(one_layer(loads), Topology::make_uniform(8, 1, 48).value());
  EXPECT_THAT(replica_counts(plan.placement, first_layer), Each(Ge(1U)));
}

// vllm-project/vllm-ascend#16000: load was lost when it was divided between replicas.
// vllm-project/vllm#23243: one of three answers (experts of slots, slots of experts, counts) did not fit the
// others.
TEST(PublicReports, NoLoadIsLostBetweenReplicas) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const auto loads = outlier_loads({3, 256}, 0.6, 16000);
  const Plan plan = sound_plan(loads, topology);
  for (LayerId layer : ids<LayerId>(3)) {
    const auto of_ranks = compute_rank_loads(loads.layer(layer), plan.placement.layer(layer), topology);
    EXPECT_NEAR(std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0), loads.total(layer),
                1e-9 * loads.total(layer));
    const auto counts = replica_counts(plan.placement, layer);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), 288U);
    for (ExpertId e : ids<ExpertId>(256)) {
      for (SlotId slot : plan.placement.replicas(layer, e))
        EXPECT_EQ(plan.placement.expert_at(layer, slot), e);
    }
  }
}

// NVIDIA/TensorRT-LLM#8886: more than 32 slots of one group or rank were too many.
TEST(PublicReports, GroupsAndRanksMayHaveMoreThan32Slots) {
  const auto loads = outlier_loads({2, 256}, 0.6, 8886);
  EXPECT_EQ(count_duplicates(sound_plan(loads, Topology::make_uniform(8, 4, 320).value(), {.num_groups = 8})),
            0);
  EXPECT_EQ(count_duplicates(sound_plan(loads, Topology::make_uniform(4, 1, 400).value())), 0);
}

// vllm-project/vllm-ascend#2952 (review): ranks drew copies at random and disagreed.
TEST(PublicReports, EveryRankThatPlansFindsTheSamePlan) {
  const auto loads = lognormal_loads({8, 64}, 1.0, 2952);
  const auto topology = Topology::make_uniform(16, 2, 80).value();
  const Plan first = sound_plan(loads, topology);
  for (std::size_t threads : {1U, 3U}) {
    ThreadedExecutor executor(threads);
    EXPECT_EQ(plan_rebalance(loads, topology, {}, executor)->placement, first.placement);
  }
}

// vllm-project/vllm#30888: planning had to leave the serving thread. It may run on any, and on several at
// once.
TEST(PublicReports, PlansMayBeMadeOnSeveralThreadsAtOnce) {
  const auto loads = lognormal_loads({4, 64}, 1.0, 30888);
  const auto topology = Topology::make_uniform(16, 2, 80).value();
  const Plan alone = sound_plan(loads, topology);
  std::vector<std::jthread> threads;
  std::vector<Plan> plans(4, alone);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    threads.emplace_back([&, i] { plans[i] = plan_of(loads, topology); });
  }
  threads.clear();
  for (const Plan& plan : plans) EXPECT_EQ(plan.placement, alone.placement);
}

// vllm-project/vllm#24069, #37656: a policy that needed an old placement failed without one, and the default
// left a rank at 232; the best over all counts and places is 196.67, the mean 181.25.
TEST(PublicReports, NoOldPlacementIsNeededForAGoodPlan) {
  const Plan plan =
      sound_plan(one_layer({600, 560, 120, 120, 20, 10, 10, 10}), Topology::make_uniform(8, 1, 16).value());
  EXPECT_LE(plan.layers[0].imbalance, 196.67 / 181.25 + 1e-4);
  EXPECT_LE(plan.layers[0].bound, 196.67 / 181.25);
}

}  // namespace
}  // namespace trimtab::test
