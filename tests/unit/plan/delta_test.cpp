// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/delta.hpp>

#include <gtest/gtest.h>

#include "support/delta_checks.hpp"
#include "support/drifting_loads.hpp"
#include "support/generated_loads.hpp"
#include "support/placements.hpp"
#include "support/plan_checks.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

/// Planned for one window of loads and in use under the next.
class DeltaTest : public ::testing::Test {
 protected:
  [[nodiscard]] DeltaPlan made() const { return delta_of(given()); }
  [[nodiscard]] DeltaCase given() const { return {loads_, current_, topology_, options_, delta_}; }
  [[nodiscard]] Result<DeltaPlan> attempt() const {
    SerialExecutor executor;
    return plan_delta(loads_, current_, topology_, options_, delta_, executor);
  }
  void expect_sound() const { EXPECT_EQ(broken_delta(made(), given()), ""); }
  void expect_error(Errc code, const std::string& message) const {
    const auto result = attempt();
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, code);
    EXPECT_EQ(result.error().message, message);
  }

  Topology topology_ = uniform(8, 2, 72);
  PlanOptions options_;
  DeltaOptions delta_;
  LoadMatrix before_ = lognormal_loads({6, 64}, 0.5, 1);
  Placement current_ = plan_of(before_, topology_).placement;
  LoadMatrix loads_ = drifted_loads(before_, 0.2, 2);
};

TEST_F(DeltaTest, ReachesTheFullReplanWithFarFewerMoves) {
  const DeltaPlan plan = made();
  expect_sound();
  EXPECT_LT(share_moved(plan), 0.35);
  EXPECT_GT(total_moves(plan), 0);
}

TEST_F(DeltaTest, KeepsToMovesPerLayer) {
  for (std::int32_t moves : {0, 1, 2, 3, 7, 20}) {
    delta_.max_moves = moves;
    expect_sound();
  }
}

TEST_F(DeltaTest, GetsMoreEvenWithEveryMove) {
  double last = 10.0;
  for (std::int32_t moves : {0, 2, 5, 10, 20}) {
    delta_.max_moves = moves;
    const double reached = mean_imbalance(made());
    EXPECT_LT(reached, last);
    last = reached;
  }
}

TEST_F(DeltaTest, StopsAsSoonAsItIsEvenEnough) {
  std::int64_t last = -1;
  for (double within : {0.2, 0.05, 0.01, 0.0}) {
    delta_.within = within;
    expect_sound();
    EXPECT_GT(total_moves(made()), last);
    last = total_moves(made());
  }
}

TEST_F(DeltaTest, SpendsABudgetOverAllLayers) {
  delta_.expert_bytes = 1000;
  for (std::uint64_t moves : {0U, 5U, 30U, 1000U}) {
    delta_.move_budget_bytes = moves * 1000 + 999;
    expect_sound();
  }
  delta_.move_budget_bytes = 30'000;
  const double by_gain = mean_imbalance(made());
  delta_.move_budget_bytes.reset();
  delta_.max_moves = 5;  // the same moves, as many in each of the six layers
  EXPECT_LT(by_gain, mean_imbalance(made()));
}

TEST_F(DeltaTest, GivesTheSameOnAnyNumberOfThreads) {
  delta_.max_moves = 9;
  const DeltaPlan serial = made();
  for (std::size_t threads : {1U, 2U, 7U}) {
    ThreadedExecutor executor(threads);
    const auto again = plan_delta(loads_, current_, topology_, options_, delta_, executor).value();
    EXPECT_EQ(again.plan.placement, serial.plan.placement);
    for (std::size_t i = 0; i < serial.layers.size(); ++i) {
      EXPECT_EQ(again.layers[i].curve, serial.layers[i].curve);
      EXPECT_EQ(again.layers[i].moves_bound, serial.layers[i].moves_bound);
    }
  }
}

TEST_F(DeltaTest, MovesTheMultisetMinimumWithOneSlotPerRank) {
  topology_ = uniform(80, 1, 80);
  current_ = plan_of(before_, topology_).placement;
  const DeltaPlan plan = made();
  const Plan full = plan_of(loads_, topology_);
  for (LayerId layer : ids<LayerId>(6)) {
    const auto old_counts = replica_counts(current_, layer);
    const auto new_counts = replica_counts(full.placement, layer);
    std::int64_t least = 0;
    for (std::size_t e = 0; e < old_counts.size(); ++e) {
      least += new_counts[e] > old_counts[e] ? static_cast<std::int64_t>(new_counts[e] - old_counts[e]) : 0;
    }
    const LayerDelta& delta = plan.layers[layer.index()];
    EXPECT_LE(delta.counts.moves, least);
    EXPECT_EQ(delta.counts.moves, delta.moves_bound);
  }
}

TEST_F(DeltaTest, EndsInTheFullReplanWhereSearchesStick) {
  topology_ = uniform(36, 1, 72);
  current_ = plan_of(before_, topology_).placement;
  loads_ = lognormal_loads({6, 64}, 1.0, 9);  // nothing of what was planned for
  expect_sound();
}

TEST_F(DeltaTest, MovesWholeGroupsWhereTheNodesRequireIt) {
  options_.num_groups = 8;
  current_ = plan_of(before_, topology_, options_).placement;
  loads_ = drifted_loads(before_, 0.6, 5);
  expect_sound();
  std::int64_t between_nodes = 0;
  for (const LayerDelta& layer : made().layers) between_nodes += layer.counts.inter_node;
  EXPECT_GT(between_nodes, 0);
}

TEST_F(DeltaTest, BringsGroupsTogetherThatWereNot) {
  options_.num_groups = 8;
  expect_sound();
  for (const LayerDelta& layer : made().layers) EXPECT_GT(layer.required_moves, 0);
}

TEST_F(DeltaTest, KeepsALayerWithoutLoadAsItIs) {
  std::vector<double> values(before_.layer(LayerId{1}).begin(), before_.layer(LayerId{1}).end());
  values.insert(values.begin(), 64, 0.0);
  loads_ = loads_of({2, 64}, values);
  current_ = random_placement(2, 72, 64, 3);
  const DeltaPlan plan = made();
  const auto row = plan.plan.placement.layer(LayerId{0});
  EXPECT_TRUE(std::equal(row.begin(), row.end(), current_.layer(LayerId{0}).begin()));
  EXPECT_TRUE(plan.plan.layers[0].is_dense);
  EXPECT_EQ(plan.layers[0].counts, ChangeCounts{});
}

TEST_F(DeltaTest, UsesRanksThatWereAdded) {
  delta_.from = topology_;
  topology_ = uniform(12, 2, 108);  // eight ranks before
  expect_sound();
  for (const LayerDelta& layer : made().layers) EXPECT_EQ(layer.required_moves, 36);
  options_.allow_vacant = true;  // then new ranks need not be filled
  expect_sound();
  for (const LayerDelta& layer : made().layers) EXPECT_EQ(layer.required_moves, 0);
}

TEST_F(DeltaTest, LeavesRanksThatAreGone) {
  delta_.from = topology_;
  topology_ = uniform(6, 2, 66);  // eight ranks of nine slots before
  expect_sound();
  delta_.within = 0.02;
  topology_ = uniform(8, 2, 64);  // one slot less on each
  expect_sound();
}

TEST_F(DeltaTest, RefusesOptionsOutOfRange) {
  delta_ = {.max_moves = -1, .move_budget_bytes = {}, .within = {}, .from = {}};
  expect_error(Errc::invalid_argument, "max moves -1 < 0");
  delta_ = {.max_moves = {}, .move_budget_bytes = 5, .within = {}, .from = {}};
  expect_error(Errc::invalid_argument, "a move budget of 5 bytes needs the bytes of an expert");
  delta_ = {.max_moves = {}, .move_budget_bytes = {}, .within = -0.5, .from = {}};
  expect_error(Errc::invalid_argument, "within -0.5 is not a share >= 0");
}

TEST_F(DeltaTest, RefusesAPlacementOfAnotherShape) {
  current_ = random_placement(5, 72, 64, 1);
  expect_error(Errc::invalid_argument, "the current placement has 5 layers of 64 experts, the loads 6 of 64");
  current_ = random_placement(6, 70, 64, 1);
  expect_error(Errc::invalid_argument, "the current placement has 70 slots, its ranks have 72");
}

TEST_F(DeltaTest, RefusesLimitsBelowWhatIsRequired) {
  delta_.from = topology_;
  topology_ = uniform(9, 1, 81);
  delta_.max_moves = 8;
  expect_error(Errc::infeasible, "layer 0: no placement is valid before 9 moves > 8 allowed");
  delta_.max_moves.reset();
  delta_.expert_bytes = 10;
  delta_.move_budget_bytes = 539;
  expect_error(Errc::infeasible, "no placement is valid before 54 moves of 10 bytes > budget 539");
  delta_.move_budget_bytes = 540;
  expect_sound();
}

}  // namespace
}  // namespace trimtab::test
