// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/slot_sweep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/exact_split.hpp"
#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

using ::testing::HasSubstr;

const Topology ranks = Topology::make_uniform(8, 2, 8).value();

std::vector<SlotSweepPoint> sweep(std::span<const LoadMatrix> scenarios, const SlotRange& range) {
  SerialExecutor executor;
  return sweep_slots(scenarios, ranks, range, {}, executor).value();
}

TEST(SweepSlots, IncludesBothEndsWhereTheStepMeetsThem) {
  const std::vector<LoadMatrix> loads{lognormal_loads({2, 32}, 0.8, 1)};
  std::vector<std::int32_t> slots;
  std::vector<std::int32_t> redundant;
  for (const SlotSweepPoint& point : sweep(loads, {32, 48, 8})) {
    slots.push_back(point.slots);
    redundant.push_back(point.redundant);
  }
  EXPECT_EQ(slots, (std::vector<std::int32_t>{32, 40, 48}));
  EXPECT_EQ(redundant, (std::vector<std::int32_t>{0, 8, 16}));
  EXPECT_EQ(sweep(loads, {32, 47, 8}).size(), 2U);
  EXPECT_EQ(sweep(loads, {40, 40, 100}).size(), 1U);
}

// Each figure anew: other planner calls, the test's own split.
TEST(SweepSlots, MeasuresOnePlanUnderItsWorstScenario) {
  const std::vector<LoadMatrix> scenarios{lognormal_loads({3, 32}, 0.8, 1), lognormal_loads({3, 32}, 0.8, 2)};
  const SlotSweepPoint point = sweep(scenarios, {36, 36, 1}).front();
  EXPECT_LT(point.exact.mean, point.even_split.mean * 0.999);
  EXPECT_GT(point.exact_even.mean, point.even.mean * 1.001);
  const auto topology = Topology::make_uniform(8, 2, 36).value();
  SerialExecutor executor;
  for (const ShareMode shares : {ShareMode::even, ShareMode::exact}) {
    PlanOptions options;
    options.shares = shares;
    const Plan plan = plan_rebalance(scenarios, topology, options, executor).value();
    SweepFigure even{0.0, 0.0};
    SweepFigure exact{0.0, 0.0};
    for (const LoadMatrix& loads : scenarios) {
      double even_mean = 0.0;
      double exact_mean = 0.0;
      for (LayerId layer : ids<LayerId>(3)) {
        const double of_even = imbalance_of(loads, plan.placement, layer, topology);
        const double of_exact =
            best_split_imbalance(loads.layer(layer), plan.placement.layer(layer), topology);
        even = {even.mean, std::max(even.worst, of_even)};
        exact = {exact.mean, std::max(exact.worst, of_exact)};
        even_mean += of_even / 3.0;
        exact_mean += of_exact / 3.0;
      }
      even.mean = std::max(even.mean, even_mean);
      exact.mean = std::max(exact.mean, exact_mean);
    }
    const bool is_even = shares == ShareMode::even;
    EXPECT_NEAR((is_even ? point.even : point.exact_even).mean, even.mean, 1e-9);
    EXPECT_NEAR((is_even ? point.even : point.exact_even).worst, even.worst, 1e-9);
    EXPECT_NEAR((is_even ? point.even_split : point.exact).mean, exact.mean, 1e-7);
    EXPECT_NEAR((is_even ? point.even_split : point.exact).worst, exact.worst, 1e-7);
  }
}

TEST(SweepSlots, NeedsFewerSlotsWithTheExactSplit) {
  const std::vector<LoadMatrix> scenarios{outlier_loads({2, 64}, 0.6, 1), outlier_loads({2, 64}, 0.6, 2),
                                          outlier_loads({2, 64}, 0.6, 3)};
  for (const SlotSweepPoint& point : sweep(scenarios, {72, 96, 8})) {
    EXPECT_LE(point.even_split.worst, point.even.worst);
    EXPECT_LE(point.exact.worst, point.even_split.worst * (1.0 + 1e-9));
    EXPECT_LT(point.exact.mean, point.even.mean);
  }
}

TEST(SweepSlots, CountsDeadRanksAndDenseLayersOut) {
  const auto loads = loads_of({2, 4}, {0, 0, 0, 0, 8, 4, 2, 2});
  const auto broken = Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}, {NodeId{0}, 1}}).value();
  SerialExecutor executor;
  const auto points = sweep_slots(std::span(&loads, 1), broken, {9, 9, 1}, {}, executor).value();
  EXPECT_EQ(points[0].redundant, 2);
  EXPECT_DOUBLE_EQ(points[0].even.mean, 1.0);
  EXPECT_DOUBLE_EQ(points[0].exact.worst, 1.0);
}

TEST(SweepSlots, RefusesWhatNoPlanCanHave) {
  const std::vector<LoadMatrix> loads{lognormal_loads({1, 32}, 0.5, 1)};
  SerialExecutor executor;
  const auto few = sweep_slots(loads, ranks, {24, 40, 8}, {}, executor);
  ASSERT_FALSE(few.has_value());
  EXPECT_EQ(few.error().code, Errc::infeasible);
  EXPECT_THAT(few.error().message, HasSubstr("24 slots: 24 live slots < 32 experts"));
  for (const SlotRange& range : {SlotRange{0, 8, 8}, SlotRange{40, 32, 8}, SlotRange{32, 40, 0}}) {
    const auto wrong = sweep_slots(loads, ranks, range, {}, executor);
    ASSERT_FALSE(wrong.has_value());
    EXPECT_EQ(wrong.error().code, Errc::invalid_argument);
  }
  EXPECT_FALSE(sweep_slots({}, ranks, {32, 40, 8}, {}, executor).has_value());
}

}  // namespace
}  // namespace trimtab::test
