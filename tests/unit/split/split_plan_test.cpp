// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split_plan.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/recorded_loads.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Placement placement_of(std::int32_t layers, std::int32_t slots, std::int32_t experts,
                       std::initializer_list<int> map) {
  std::vector<ExpertId> row;
  for (int expert : map) row.push_back(ExpertId{expert});
  return Placement::make(layers, slots, experts, std::move(row)).value();
}

Result<SplitPlan> split_of(const LoadMatrix& loads, const Placement& placement, const Topology& topology,
                           const SplitOptions& options = {}) {
  SerialExecutor executor;
  return solve_split(loads, placement, topology, options, executor);
}

TEST(SolveSplit, ReportsEachLayer) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const auto placement = placement_of(2, 4, 3, {0, 1, 1, 2, 0, 1, 2, 1});
  const auto plan = split_of(loads_of({2, 3}, {2, 10, 4, 0, 0, 0}), placement, topology).value();
  EXPECT_THAT(plan.split.layer(LayerId{0}), ElementsAre(2, 6, 4, 4));
  EXPECT_THAT(plan.split.layer(LayerId{1}), ElementsAre(0, 0, 0, 0));
  const LayerSplit& layer = plan.layers[0];
  EXPECT_FALSE(layer.is_dense);
  EXPECT_DOUBLE_EQ(layer.even, 9.0 / 8.0);
  EXPECT_DOUBLE_EQ(layer.exact, 1.0);
  EXPECT_DOUBLE_EQ(layer.optimum, 8.0);
  EXPECT_DOUBLE_EQ(layer.max_pressure, 8.0);
  EXPECT_THAT(layer.tight_ranks, ElementsAre(Rank{0}, Rank{1}));
  EXPECT_TRUE(plan.layers[1].is_dense);
}

TEST(SolveSplit, WaterfillsUpToTheFullestRank) {
  const auto topology = Topology::make_uniform(2, 1, 2).value();
  const auto placement = placement_of(1, 2, 2, {0, 1});
  const auto loads = loads_of({1, 2}, {12, 8});
  const auto filled = [&](double shared) {
    return split_of(loads, placement, topology, {.shared_tokens = shared})->layers[0].waterfilled;
  };
  EXPECT_DOUBLE_EQ(filled(0.0), 1.2);
  EXPECT_DOUBLE_EQ(filled(0.1), 12.0 / 11.0);
  EXPECT_DOUBLE_EQ(filled(0.2), 1.0);
  EXPECT_DOUBLE_EQ(filled(0.5), 1.0);
}

// Groups {0, 1} and {2, 3}; node 0 has slots 0..2, node 1 slots 3..5.
TEST(SolveSplit, KeepsGroupsInTheNodeThatOwnsThem) {
  const auto topology = Topology::make_uniform(2, 2, 6).value();
  const auto loads = loads_of({1, 4}, {100, 10, 10, 10});
  const auto placement = placement_of(1, 6, 4, {0, 1, 0, 2, 3, 0});
  const auto plan = split_of(loads, placement, topology, {.num_groups = 2}).value();
  EXPECT_THAT(plan.split.layer(LayerId{0}), ElementsAre(50, 10, 50, 10, 10, 0));
  EXPECT_THAT(plan.layers[0].tight_ranks, ElementsAre(Rank{0}));
  EXPECT_DOUBLE_EQ(plan.layers[0].max_pressure, 110.0);
  EXPECT_LT(split_of(loads, placement, topology)->layers[0].max_pressure, 70.0);
}

// Each group is one expert; both nodes hold both.
TEST(SolveSplit, PrefersTheOwnerWithMoreReplicas) {
  const auto topology = Topology::make_uniform(2, 2, 6).value();
  const auto placement = placement_of(1, 6, 2, {0, 1, -1, 0, 1, 0});
  const auto plan = split_of(loads_of({1, 2}, {4, 6}), placement, topology, {.num_groups = 2}).value();
  EXPECT_THAT(plan.split.layer(LayerId{0}), ElementsAre(0, 6, 0, 2, 0, 2));
}

TEST(SolveSplit, NamesWhatNoNodeOwns) {
  const auto topology = Topology::make_uniform(2, 2, 4).value();
  const auto placement = placement_of(1, 4, 4, {0, 2, 1, 3});
  const auto plan = split_of(loads_of({1, 4}, {1, 1, 1, 1}), placement, topology, {.num_groups = 2});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Errc::infeasible);
  EXPECT_THAT(plan.error().message, HasSubstr("layer 0: group 0"));
  EXPECT_THAT(plan.error().message, HasSubstr("node 0 comes nearest and has no live replica of expert 1"));
}

TEST(SolveSplit, SaysWhatLeastSharesCost) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const auto placement = placement_of(1, 4, 3, {0, 1, 1, 2});
  const auto loads = loads_of({1, 3}, {9, 10, 5});
  const auto plan = split_of(loads, placement, topology, {.min_assignments = 4}).value();
  EXPECT_THAT(plan.split.layer(LayerId{0}), ElementsAre(9, 0, 10, 5));
  EXPECT_EQ(plan.layers[0].num_given_up, 1);
  EXPECT_DOUBLE_EQ(plan.layers[0].optimum, 12.0);
  EXPECT_DOUBLE_EQ(plan.layers[0].max_pressure, 15.0);
}

TEST(SolveSplit, RefusesWhatDoesNotFit) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const auto placement = placement_of(1, 4, 3, {0, 1, 1, 2});
  const auto loads = loads_of({1, 3}, {9, 10, 5});
  const auto message = [&](const LoadMatrix& l, const Topology& t, const SplitOptions& o) {
    const auto plan = split_of(l, placement, t, o);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_THAT(message(loads_of({2, 3}, {1, 1, 1, 1, 1, 1}), topology, {}), HasSubstr("2 layers x 3 experts"));
  EXPECT_THAT(message(loads, Topology::make_uniform(2, 1, 5).value(), {}), HasSubstr("5"));
  EXPECT_THAT(message(loads, topology, {.shared_tokens = -1.0}), HasSubstr("-1 shared-expert tokens"));
  EXPECT_THAT(message(loads, topology, {.num_groups = 2}), HasSubstr("2 groups do not divide 3 experts"));
  EXPECT_THAT(message(loads, topology, {.num_groups = 0}), HasSubstr("0 groups"));
  EXPECT_THAT(message(loads, topology, {.min_assignments = -3}), HasSubstr("-3 assignments"));
  const auto dead = Topology::make({{NodeId{0}, 2}, {NodeId{0}, 2, 1.0, false}}).value();
  EXPECT_THAT(message(loads, dead, {}), HasSubstr("expert 2"));
}

// Beyond 2^53 assignments, and far below one.
TEST(SolveSplit, TakesLoadsOfAnySize) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const auto placement = placement_of(1, 4, 3, {0, 1, 1, 2});
  for (double unit : {1e-300, 1e-9, 1e17, 1e290}) {
    const auto plan =
        split_of(loads_of({1, 3}, {2 * unit, 10 * unit, 4 * unit}), placement, topology).value();
    EXPECT_NEAR(plan.layers[0].max_pressure, 8 * unit, 1e-9 * unit);
    EXPECT_NEAR(plan.layers[0].exact, 1.0, 1e-9);
  }
}

TEST(SolveSplit, IsTheSameOnAnyExecutor) {
  const auto loads = outlier_loads({12, 128}, 0.6, 3);
  const auto topology = Topology::make_uniform(32, 4, 160).value();
  const Plan plan = plan_of(loads, topology, {.effort = Effort::fast});
  const auto serial = split_of(loads, plan.placement, topology).value();
  ThreadedExecutor threads(3);
  EXPECT_EQ(solve_split(loads, plan.placement, topology, {}, threads)->split, serial.split);
}

// A split can only help, and what it cannot help is named.
void expect_better_than_even(const LoadMatrix& loads, const Topology& topology) {
  const Plan plan = plan_of(loads, topology, {.effort = Effort::fast});
  const auto split = split_of(loads, plan.placement, topology).value();
  for (const LayerSplit& layer : split.layers) {
    if (layer.is_dense) continue;
    EXPECT_NEAR(layer.even, imbalance_of(loads, plan.placement, layer.layer, topology), 1e-12);
    EXPECT_LE(layer.exact, layer.even * (1.0 + 1e-12));
    EXPECT_GE(layer.exact, 1.0);
    double confined = 0.0;
    for (ExpertId expert : layer.tight_experts) confined += loads.layer(layer.layer)[expert.index()];
    EXPECT_NEAR(confined / static_cast<double>(layer.tight_ranks.size()), layer.optimum, 1e-6);
  }
}

TEST(SolveSplit, IsNeverWorseThanEvenShares) {
  expect_better_than_even(outlier_loads({8, 256}, 0.6, 3), Topology::make_uniform(32, 4, 288).value());
  expect_better_than_even(zipf_loads({8, 256}, 1.0, 3), Topology::make_uniform(144, 18, 432).value());
}

TEST(SolveSplit, IsNeverWorseThanEvenSharesOnRecordedLoads) {
  const auto files = recorded_loads("");
  if (files.empty()) GTEST_SKIP() << "TRIMTAB_LOADS_DIR names no folder with loads";
  for (const auto& file : recorded_loads("deepseek-v3_")) {
    expect_better_than_even(read_loads(file), Topology::make_uniform(32, 4, 288).value());
  }
  for (const auto& file : recorded_loads("olmoe_")) {
    expect_better_than_even(read_loads(file), Topology::make_uniform(8, 1, 80).value());
  }
}

}  // namespace
}  // namespace trimtab::test
