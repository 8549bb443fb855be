// SPDX-License-Identifier: Apache-2.0
//
// Faults that users of other planners reported in public, each as a test of ours: what a planner is given,
// and what it says of its plan.
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/planner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

using ::testing::HasSubstr;

// vllm-project/vllm#22167: loads came multiplied by the number of data-parallel ranks. Only ratios count.
TEST(PublicReports, LoadsInAnotherUnitGiveTheSamePlan) {
  const auto topology = Topology::make_uniform(16, 2, 80).value();
  const auto loads = lognormal_loads({6, 64}, 1.0, 22167);
  const Plan plan = plan_of(loads, topology, {.num_groups = 4});
  for (double factor : {8.0, 1.0 / 1024.0, 0x1p40}) {
    std::vector<double> scaled;
    for (LayerId layer : ids<LayerId>(6)) {
      for (double load : loads.layer(layer)) scaled.push_back(load * factor);
    }
    const Plan same = plan_of(loads_of({6, 64}, std::move(scaled)), topology, {.num_groups = 4});
    EXPECT_EQ(same.placement, plan.placement);
    EXPECT_EQ(same.layers[3].imbalance, plan.layers[3].imbalance);
  }
}

// sgl-project/sglang#25961: rows of dense layers, all zero, were taken for loads.
// vllm-project/vllm-ascend#12154: a row of zeros became NaN.
TEST(PublicReports, RowsOfZerosAreDenseLayers) {
  const auto topology = Topology::make_uniform(4, 1, 12).value();
  const auto loads =
      loads_of({3, 8}, {0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 1, 5, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  const Plan plan = plan_of(loads, topology);
  for (LayerId layer : ids<LayerId>(3)) {
    const LayerReport& report = plan.layers[layer.index()];
    EXPECT_EQ(report.is_dense, layer != LayerId{1});
    EXPECT_GE(report.imbalance, 1.0);
    EXPECT_TRUE(!report.is_dense || plan.placement.expert_at(layer, SlotId{9}) == ExpertId{1});
  }
}

// ROCm/ATOM, TensorRT-LLM and others take what was counted as it is: NaN, infinite or negative loads.
TEST(PublicReports, LoadsThatAreNoNumbersAreRefusedByPlace) {
  for (double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    const auto loads = LoadMatrix::make(2, 2, {1, 2, bad, 4});
    ASSERT_FALSE(loads.has_value());
    EXPECT_EQ(loads.error().code, Errc::invalid_argument);
    EXPECT_THAT(loads.error().message, HasSubstr("layer 1"));
    EXPECT_THAT(loads.error().message, HasSubstr("expert 0"));
  }
}

// sgl-project/sglang#8253: an assertion where nodes do not divide ranks, slots or experts.
TEST(PublicReports, NumbersNeedNotDivideEachOther) {
  const auto loads = lognormal_loads({2, 256}, 0.6, 8253);
  for (const auto& [ranks, nodes, slots] :
       {std::tuple{3, 1, 256}, {3, 2, 400}, {7, 3, 270}, {12, 5, 261}, {33, 4, 300}}) {
    const auto topology = Topology::make_uniform(ranks, nodes, slots).value();
    const Plan plan = plan_of(loads, topology, {.num_groups = 8});
    EXPECT_EQ(broken_promise(plan, loads, topology, {.num_groups = 8}), "") << ranks << " ranks";
  }
}

// sgl-project/sglang's elasticity_aware planner ends in an assertion at the fourth dead rank of 32 with 288
// slots.
TEST(PublicReports, TooFewSlotsAreAnErrorWithNumbers) {
  std::vector<RankInfo> ranks(32, RankInfo{NodeId{0}, 9});
  for (std::size_t r = 0; r < 4; ++r) ranks[r].is_alive = false;
  SerialExecutor executor;
  const auto loads = uniform_loads({1, 256}, 1.0);
  const auto plan = plan_rebalance(loads, Topology::make(ranks).value(), {}, executor);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, Errc::infeasible);
  EXPECT_THAT(plan.error().message, HasSubstr("252 live slots < 256 experts"));
}

// sgl-project/sglang#6017, #8345: rebalancing without gain. What there is to gain is known before anything
// moves.
TEST(PublicReports, ThePlanTellsWhatItWouldGain) {
  const auto topology = Topology::make_uniform(8, 1, 64).value();
  const LayerReport level = plan_of(uniform_loads({1, 64}, 50.0), topology).layers[0];
  EXPECT_DOUBLE_EQ(level.imbalance_before, 1.0);
  EXPECT_DOUBLE_EQ(level.imbalance, 1.0);
  std::vector<double> skewed(64, 50.0);
  skewed[0] = skewed[1] = 500.0;
  const LayerReport uneven = plan_of(loads_of({1, 64}, std::move(skewed)), topology).layers[0];
  EXPECT_GT(uneven.imbalance_before, 2.0 * uneven.imbalance / 1.5);
  EXPECT_LT(uneven.imbalance, uneven.imbalance_before);
}

// vllm-project/vllm#51813: balancedness was reduced over layers instead of ranks and printed 1.0 for loads of
// 100 and 200 on two ranks in both layers.
TEST(PublicReports, BalancednessIsTakenOverRanksNotLayers) {
  const auto topology = Topology::make_uniform(2, 1, 2).value();
  for (const std::vector<double>& of_ranks : {std::vector<double>{100, 200}, std::vector<double>{100, 200}}) {
    const Imbalance imbalance = compute_imbalance(of_ranks, topology);
    EXPECT_DOUBLE_EQ(imbalance.balancedness(), 0.75);
    EXPECT_DOUBLE_EQ(imbalance.max_over_mean(), 4.0 / 3.0);
    EXPECT_DOUBLE_EQ(imbalance.excess(), 1.0 / 3.0);
  }
}

}  // namespace
}  // namespace trimtab::test
