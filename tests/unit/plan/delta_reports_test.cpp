// SPDX-License-Identifier: Apache-2.0
//
// What others were told about plans that ignore the placement in use.
#include <trimtab/plan/delta.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include "support/delta_checks.hpp"
#include "support/drifting_loads.hpp"
#include "support/generated_loads.hpp"
#include "support/placements.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

const LoadShape shape{4, 128};

// deepseek-ai/EPLB#25: whole groups went to another node, as if shuffled, though the load was nearly the
// same.
TEST(DeltaReports, DoesNotShuffleGroupsBetweenNodes) {
  const Topology topology = uniform(16, 4, 160);
  const PlanOptions options{.num_groups = 8};
  const LoadMatrix loads = lognormal_loads(shape, 0.5, 1);
  const Placement current = plan_of(loads, topology, options).placement;
  const LoadMatrix next = drifted_loads(loads, 0.01, 2);
  const DeltaOptions delta{.max_moves = {}, .move_budget_bytes = {}, .within = 0.01, .from = {}};
  const DeltaPlan made = delta_of({next, current, topology, options, delta});
  for (const LayerDelta& layer : made.layers) EXPECT_EQ(layer.counts.inter_node, 0);
}

// deepseek-ai/EPLB PR#13: a knob between few moves and balance.
TEST(DeltaReports, TradesMovesForBalance) {
  const Topology topology = uniform(16, 1, 160);
  const LoadMatrix loads = lognormal_loads(shape, 0.5, 1);
  const Placement current = plan_of(loads, topology).placement;
  const LoadMatrix next = drifted_loads(loads, 0.3, 2);
  std::vector<std::pair<std::int64_t, double>> seen;
  for (std::int32_t moves : {0, 4, 16, 64}) {
    const DeltaOptions delta{.max_moves = moves, .move_budget_bytes = {}, .within = {}, .from = {}};
    const DeltaPlan made = delta_of({next, current, topology, {}, delta});
    seen.emplace_back(total_moves(made), mean_imbalance(made));
  }
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GT(seen[i].first, seen[i - 1].first);
    EXPECT_LT(seen[i].second, seen[i - 1].second);
  }
}

// vllm-project/vllm PR#24069, #37656: an incremental policy asserted where there was no old placement, and
// its full reshuffle took eight times an incremental one. The start of a service is the identity placement.
TEST(DeltaReports, StartsFromTheIdentity) {
  const Topology topology = uniform(8, 1, 16);
  const LoadMatrix loads = loads_of({1, 8}, {600, 560, 120, 120, 20, 10, 10, 10});
  const Placement current = Placement::identity(1, 16, 8).value();
  const DeltaPlan made = delta_of({loads, current, topology, {}, {}});
  EXPECT_EQ(broken_delta(made, {loads, current, topology, {}, {}}), "");
  EXPECT_LE(made.plan.layers[0].imbalance, plan_of(loads, topology).layers[0].imbalance + 1e-9);
  EXPECT_LT(total_moves(made), 16);
}

// ROCm/ATOM PR#1210: replicas of experts without traffic were moved at each interval for no gain.
TEST(DeltaReports, MovesNothingWhereNothingIsGained) {
  const Topology topology = uniform(16, 2, 160);
  for (double load : {0.0, 7.0}) {
    const LoadMatrix loads = uniform_loads(shape, load);
    const Placement current = plan_of(loads, topology).placement;
    EXPECT_EQ(total_moves(delta_of({loads, current, topology, {}, {}})), 0);
  }
  const LoadMatrix loads = lognormal_loads(shape, 0.7, 3);
  const Placement current = plan_of(loads, topology).placement;
  const DeltaPlan made = delta_of({loads, current, topology, {}, {}});
  EXPECT_EQ(made.plan.placement, current);
}

// vllm-project/vllm#41204: the only replica of an expert lay on the rank that died.
TEST(DeltaReports, GivesLostExpertsAPlaceFirst) {
  std::vector<RankInfo> ranks(8, {NodeId{0}, 20});
  const LoadMatrix loads = lognormal_loads(shape, 0.5, 1);
  const Placement current = plan_of(loads, Topology::make(ranks).value()).placement;
  ranks[3].is_alive = false;
  const Topology topology = Topology::make(ranks).value();
  std::vector<std::int64_t> lost;
  for (LayerId layer : ids<LayerId>(4)) {
    std::int64_t count = 0;
    for (ExpertId e : ids<ExpertId>(128)) {
      const auto slots = current.replicas(layer, e);
      count +=
          std::all_of(slots.begin(), slots.end(), [&](SlotId s) { return !topology.is_alive(s); }) ? 1 : 0;
    }
    lost.push_back(count);
  }
  ASSERT_GT(*std::max_element(lost.begin(), lost.end()), 0);
  const DeltaOptions delta{
      .max_moves = static_cast<std::int32_t>(*std::max_element(lost.begin(), lost.end())),
      .move_budget_bytes = {},
      .within = {},
      .from = {}};
  const DeltaPlan made = delta_of({loads, current, topology, {}, delta});
  EXPECT_EQ(broken_delta(made, {loads, current, topology, {}, delta}), "");
  for (std::size_t i = 0; i < lost.size(); ++i) {
    EXPECT_EQ(made.layers[i].required_moves, lost[i]);
    EXPECT_EQ(made.layers[i].counts.from_source, lost[i]);
    EXPECT_GE(made.layers[i].moves_bound, lost[i]);
  }
}

}  // namespace
}  // namespace trimtab::test
