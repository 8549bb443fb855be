// SPDX-License-Identifier: Apache-2.0
#include "plan/anneal.hpp"

#include <gtest/gtest.h>

#include "plan/spill.hpp"
#include "support/generated_loads.hpp"

namespace trimtab::test {
namespace {

std::vector<ExpertId> experts(std::initializer_list<std::int32_t> values) {
  std::vector<ExpertId> made;
  for (std::int32_t value : values) made.push_back(ExpertId{value});
  return made;
}

/// A layer on equal ranks that owns all its parts.
struct Layer {
  Layer(std::vector<std::vector<double>> scenarios, std::int32_t ranks, std::int32_t nodes,
        const std::vector<ExpertId>& row)
      : loads(std::move(scenarios)),
        topology(Topology::make_uniform(ranks, nodes, static_cast<std::int32_t>(row.size())).value()) {
    region.ranks = usable_ranks(topology);
    for (const auto& scenario : loads) {
      double mean = 0.0;
      for (double load : scenario) mean += load / ranks;
      views.push_back({Packing(scenario, topology, row), mean, 1.0 / static_cast<double>(loads.size())});
    }
  }
  [[nodiscard]] double excess(Objective objective = Objective::worst) const {
    return excess_of(views, region.ranks, objective);
  }
  [[nodiscard]] const Packing& packing() const { return views.front().packing; }

  std::vector<std::vector<double>> loads;
  Topology topology;
  Region region;
  std::vector<LoadView> views;
};

TEST(ExcessOf, IsTheWorstOrTheWeightedMean) {
  const Layer layer({{6, 2}, {4, 4}}, 2, 1, experts({0, 1}));
  EXPECT_DOUBLE_EQ(layer.excess(Objective::worst), 1.5);
  EXPECT_DOUBLE_EQ(layer.excess(Objective::weighted_mean), 1.25);
}

TEST(Anneal, ChangesCountsWhereSwapsCannotHelp) {
  // Copies of 0 and 1 in four slots: the load is even only when the second copy is that of expert 0.
  Layer layer({{8, 2, 2}}, 2, 1, experts({0, 1, 1, 2}));
  anneal(layer.views, layer.region, {.max_steps = 2000});
  EXPECT_DOUBLE_EQ(layer.excess(), 1.0);
  EXPECT_EQ(layer.packing().copies(ExpertId{0}), 2);
}

TEST(Anneal, EndsNoWorseThanItBegan) {
  for (std::size_t steps : {0U, 1U, 100U}) {
    Layer layer({{5, 4, 3, 3, 3}}, 2, 1, experts({0, 1, 2, 3, 4, 0}));
    const double before = layer.excess();
    anneal(layer.views, layer.region, {.max_steps = steps});
    EXPECT_LE(layer.excess(), before) << steps;
  }
}

TEST(Anneal, LeavesOtherRegionsAndVacantSlotsAlone) {
  Layer layer({{9, 1, 1, 5, 5}}, 3, 1, experts({0, 1, 2, -1, 3, 4}));
  layer.region.ranks.pop_back();
  anneal(layer.views, layer.region, {.max_steps = 2000});
  EXPECT_EQ(layer.packing().expert_at(SlotId{3}), no_expert);
  EXPECT_EQ(layer.packing().expert_at(SlotId{4}), ExpertId{3});
  EXPECT_EQ(layer.packing().expert_at(SlotId{5}), ExpertId{4});
}

TEST(Anneal, LevelsAllScenariosWithOneRow) {
  // Each scenario alone is level with 0 and 1 apart, or with 0 and 2 apart; both only with 1 and 2 together.
  Layer layer({{4, 4, 0, 0}, {4, 0, 4, 0}}, 2, 1, experts({0, 1, 2, 3}));
  anneal(layer.views, layer.region, {.max_steps = 2000});
  EXPECT_DOUBLE_EQ(layer.excess(), 1.0);
  EXPECT_EQ(layer.views[0].packing.row()[0], layer.views[1].packing.row()[0]);
}

TEST(Anneal, SpillsOnlyWhatTheLimitAllows) {
  // Node 0 is home to all load. Two of its four replicas of load 1 may go: half of it.
  const std::vector<NodeId> home(8, NodeId{0});
  std::vector<NodeId> homes = home;
  for (std::size_t e = 4; e < 8; ++e) homes[e] = NodeId{1};
  for (double share : {0.0, 0.25, 0.5}) {
    Layer layer({{1, 1, 1, 1, 0, 0, 0, 0}}, 4, 2, experts({0, 1, 2, 3, 4, 5, 6, 7}));
    const SpillLimit limit{homes, share};
    anneal(layer.views, layer.region, {.max_steps = 5000, .spill = &limit});
    const double spilled = spilled_share(layer.loads[0], layer.packing().row(), homes, layer.topology);
    EXPECT_LE(spilled, share);
    EXPECT_DOUBLE_EQ(layer.excess(), share == 0.5 ? 1.0 : 2.0) << share;
  }
}

TEST(SpilledShare, CountsLiveReplicasAbroad) {
  const auto topology = Topology::make({{NodeId{0}, 2}, {NodeId{1}, 1}, {NodeId{1}, 1, 1.0, false}}).value();
  const std::vector<double> loads = {6, 2};
  const std::vector<NodeId> home = {NodeId{0}, NodeId{1}};
  // 3 of expert 0 and all of expert 1's are abroad: its copy at home is on a dead rank
  EXPECT_DOUBLE_EQ(spilled_share(loads, experts({0, 1, 0, 1}), home, topology), 5.0 / 8.0);
}

}  // namespace
}  // namespace trimtab::test
