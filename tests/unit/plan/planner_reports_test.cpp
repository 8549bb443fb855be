// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/planner.hpp>

#include <gtest/gtest.h>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

TEST(LayerReport, ComparesWithTheIdentityPlacement) {
  // Identity: {0, 1, 2} and {3, 0, 1}; loads 5 + 2 + 1 and 1 + 5 + 2.
  const auto topology = Topology::make_uniform(2, 1, 6).value();
  const auto loads = loads_of({1, 4}, {10, 4, 1, 1});
  EXPECT_DOUBLE_EQ(plan_of(loads, topology).layers[0].imbalance_before, 1.0);
  const auto skewed = loads_of({1, 4}, {1, 1, 10, 4});
  EXPECT_DOUBLE_EQ(plan_of(skewed, topology).layers[0].imbalance_before, 11.0 / 8.0);
}

TEST(LayerReport, BoundIsMetWithOneSlotPerRank) {
  const auto loads = outlier_loads({10, 64}, 0.8, 5);
  const Plan plan = plan_of(loads, Topology::make_uniform(80, 1, 80).value());
  for (const LayerReport& report : plan.layers) EXPECT_NEAR(report.imbalance, report.bound, 1e-9);
}

TEST(LayerReport, BoundKnowsTheHeaviestNode) {
  // One group has nearly all the load and must stay in one of two nodes: at least twice the mean.
  const auto topology = Topology::make_uniform(4, 2, 12).value();
  const auto loads = loads_of({1, 8}, {100, 100, 100, 100, 0, 0, 0, 0});
  const Plan plan = plan_of(loads, topology, {.num_groups = 2});
  EXPECT_DOUBLE_EQ(plan.layers[0].bound, 2.0);
  EXPECT_DOUBLE_EQ(plan.layers[0].imbalance, 2.0);
}

TEST(LayerReport, TakesTheIdentityWhereItIsBetter) {
  // The identity is level at 15; heaviest first ends at 16.
  const auto loads = loads_of({1, 9}, {12, 1, 2, 5, 4, 6, 3, 10, 2});
  const Plan plan = plan_of(loads, Topology::make_uniform(3, 1, 9).value(), {.effort = Effort::fast});
  EXPECT_DOUBLE_EQ(plan.layers[0].imbalance, 1.0);
  EXPECT_EQ(plan.placement, Placement::identity(1, 9, 9).value());
}

TEST(LayerReport, FindsTheFastRank) {
  const auto topology = Topology::make({{NodeId{0}, 1, 1.0}, {NodeId{0}, 1, 9.0}}).value();
  EXPECT_DOUBLE_EQ(plan_of(loads_of({1, 2}, {90, 10}), topology).layers[0].imbalance, 1.0);
}

TEST(LayerReport, NumbersLayersByRowDenseOnesIncluded) {
  const auto loads = loads_of({2, 2}, {0, 0, 3, 1});
  const Plan plan = plan_of(loads, Topology::make_uniform(2, 1, 2).value());
  EXPECT_EQ(plan.layers[1].layer, LayerId{1});
  EXPECT_TRUE(plan.layers[0].is_dense);
}

}  // namespace
}  // namespace trimtab::test
