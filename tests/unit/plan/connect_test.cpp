// SPDX-License-Identifier: Apache-2.0
//
// On planned rows of real sizes: 58 x 256 on 288 slots of 32 ranks and its like.
#include "plan/connect.hpp"

#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/replica_graph.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/exact_split.hpp"
#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/recorded_loads.hpp"

namespace trimtab::test {
namespace {

using RowOfSlots = std::vector<ExpertId>;

double pressure_of(LayerLoads loads, const RowOfSlots& row, const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, row, topology), topology).max;
}

RowOfSlots planned_row(const Plan& plan, LayerId layer) {
  const auto row = plan.placement.layer(layer);
  return {row.begin(), row.end()};
}

std::int32_t count_second_copies(const RowOfSlots& row, const Topology& topology) {
  std::int32_t count = 0;
  for (SlotId a : ids<SlotId>(row.size())) {
    for (SlotId b : topology.slots_of(topology.rank_of(a))) {
      count += b < a && row[a.index()] != no_expert && row[a.index()] == row[b.index()] ? 1 : 0;
    }
  }
  return count;
}

/// The number of components that was asked for, counted by other means; per node under `within_nodes`.
std::int32_t count_components(const RowOfSlots& row, const Topology& topology, bool within_nodes) {
  if (!within_nodes) return make_replica_graph(row, topology).num_components();
  std::int32_t count = 0;
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    std::vector<RankInfo> ranks;
    for (Rank rank : ids<Rank>(topology.num_ranks())) {
      ranks.push_back(topology.rank(rank));
      ranks.back().is_alive = ranks.back().is_alive && ranks.back().node == node;
    }
    count += make_replica_graph(row, Topology::make(ranks).value()).num_components();
  }
  return count;
}

/// Everything that connect_replicas promises of one row, whatever comes out.
Connection expect_sound(LayerLoads loads, const Topology& topology, const ConnectOptions& options,
                        RowOfSlots& row) {
  const RowOfSlots before = row;
  const double pressure_before = pressure_of(loads, before, topology);
  const Connection result = connect_replicas(loads, topology, options, row);
  EXPECT_TRUE(std::is_permutation(row.begin(), row.end(), before.begin()));
  EXPECT_LE(count_second_copies(row, topology), count_second_copies(before, topology));
  EXPECT_EQ(result.components_before, count_components(before, topology, options.within_nodes));
  EXPECT_EQ(result.components, count_components(row, topology, options.within_nodes));
  EXPECT_LE(result.components, result.components_before);
  EXPECT_NEAR(result.pressure_before, pressure_before, 1e-12 * pressure_before);
  EXPECT_NEAR(result.pressure, pressure_of(loads, row, topology), 1e-12 * pressure_before);
  EXPECT_LE(result.pressure, std::max(options.max_pressure, pressure_before) * (1.0 + 1e-12));
  RowOfSlots again = before;
  connect_replicas(loads, topology, options, again);
  EXPECT_EQ(again, row);
  for (SlotId slot : ids<SlotId>(row.size())) {
    EXPECT_TRUE(topology.is_alive(slot) || row[slot.index()] == before[slot.index()]);
  }
  return result;
}

double mean_pressure(const LoadMatrix& loads, LayerId layer, const Topology& topology) {
  return loads.total(layer) / topology.total_speed();
}

struct Outcome {
  double components_before = 0.0;
  double imbalance = 0.0;  ///< Mean over layers.
};

/// One component in every layer at an imbalance of 1.01, or of the plan where that is more uneven.
Outcome expect_connected(const LoadMatrix& loads, const Topology& topology) {
  const Plan plan = plan_of(loads, topology, {.locality = Locality::none});
  Outcome outcome;
  double layers = 0.0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) continue;
    SCOPED_TRACE(layer.value());
    RowOfSlots row = planned_row(plan, layer);
    const double mean = mean_pressure(loads, layer, topology);
    const auto result = expect_sound(loads.layer(layer), topology, {.max_pressure = 1.01 * mean}, row);
    EXPECT_EQ(result.components, 1);
    outcome.components_before += result.components_before;
    outcome.imbalance += result.pressure / mean;
    layers += 1.0;
  }
  return {outcome.components_before / layers, outcome.imbalance / layers};
}

TEST(ConnectReplicas, JoinsAllRanksOfPlannedLayers) {
  const Topology wide = Topology::make_uniform(32, 4, 288).value();
  for (double sigma : {0.5, 1.0}) {
    const Outcome outcome = expect_connected(lognormal_loads({58, 256}, sigma, 7), wide);
    EXPECT_GT(outcome.components_before, 2.0);
    EXPECT_LT(outcome.imbalance, 1.002);
    EXPECT_LT(
        expect_connected(lognormal_loads({94, 128}, sigma, 8), Topology::make_uniform(32, 4, 160).value())
            .imbalance,
        1.004);
    EXPECT_LT(
        expect_connected(lognormal_loads({61, 384}, sigma, 9), Topology::make_uniform(64, 8, 448).value())
            .imbalance,
        1.002);
  }
  EXPECT_LT(expect_connected(outlier_loads({58, 256}, 0.6, 3), wide).imbalance, 1.002);
}

TEST(ConnectReplicas, JoinsAllRanksOnRecordedLoads) {
  const auto files = recorded_loads("deepseek-v3_");
  if (files.empty()) GTEST_SKIP() << "TRIMTAB_LOADS_DIR names no folder with deepseek-v3_* files";
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename());
    EXPECT_LT(expect_connected(read_loads(file), Topology::make_uniform(32, 4, 288).value()).imbalance,
              1.002);
  }
}

TEST(ConnectReplicas, JoinsTheRanksOfEachNodeForThemselves) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const auto loads = outlier_loads({20, 256}, 0.6, 5);
  const Plan plan = plan_of(loads, topology, {.effort = Effort::fast, .num_groups = 8});
  for (LayerId layer : ids<LayerId>(20)) {
    RowOfSlots row = planned_row(plan, layer);
    const auto options = ConnectOptions{.max_pressure = 0.0, .within_nodes = true};
    EXPECT_EQ(expect_sound(loads.layer(layer), topology, options, row).components, 4);
    const auto node_of = [&](SlotId slot) { return topology.node_of(topology.rank_of(slot)); };
    for (NodeId node : ids<NodeId>(4)) {
      RowOfSlots held;
      RowOfSlots planned;
      for (SlotId slot : ids<SlotId>(288)) {
        if (node_of(slot) != node) continue;
        held.push_back(row[slot.index()]);
        planned.push_back(plan.placement.expert_at(layer, slot));
      }
      EXPECT_TRUE(std::is_permutation(held.begin(), held.end(), planned.begin(), planned.end()));
    }
  }
}

TEST(ConnectReplicas, SpreadsLinksEvenlyWhereCopiesAllow) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const auto loads = lognormal_loads({20, 256}, 0.5, 7);  // nearly all replicated experts have two copies
  const Plan plan = plan_of(loads, topology);
  for (LayerId layer : ids<LayerId>(20)) {
    RowOfSlots row = planned_row(plan, layer);
    connect_replicas(loads.layer(layer), topology,
                     {.max_pressure = 1.01 * mean_pressure(loads, layer, topology)}, row);
    const auto graph = make_replica_graph(row, topology);
    EXPECT_GE(graph.links.min, 1);
    EXPECT_LE(graph.links.max, 6);
    EXPECT_EQ(graph.num_isolated, 0);
  }
}

// With one slot per rank nothing can be joined, and 32 extra copies join at most 33 of 144 ranks.
TEST(ConnectReplicas, JoinsAsMuchAsTheCopiesAllow) {
  const auto loads = lognormal_loads({4, 256}, 0.5, 7);
  for (const auto& [ranks, slots] : {std::pair{320, 320}, std::pair{144, 288}}) {
    const auto topology = Topology::make_uniform(ranks, 1, slots).value();
    const Plan plan = plan_of(loads, topology, {.effort = Effort::fast});
    for (LayerId layer : ids<LayerId>(4)) {
      RowOfSlots row = planned_row(plan, layer);
      EXPECT_EQ(expect_sound(loads.layer(layer), topology, {}, row).components, ranks - (slots - 256));
    }
  }
}

TEST(ConnectReplicas, KeepsItsPromisesOnUnevenRanks) {
  std::mt19937_64 random(17);
  for (int repeat = 0; repeat < 60; ++repeat) {
    std::uniform_int_distribution<int> slots(0, 9);
    std::uniform_int_distribution<int> kind(0, 5);
    std::vector<RankInfo> ranks;
    for (int r = 0; r < 12; ++r) {
      const double speed = kind(random) == 0 ? 2.0 : 1.0;
      ranks.push_back({NodeId{r / 4}, slots(random), speed, r % 4 == 0 || kind(random) != 0});
    }
    const auto topology = Topology::make(ranks).value();
    const std::int32_t num_experts = std::max(1, topology.num_live_slots() * 3 / 4);
    const auto loads = lognormal_loads({1, num_experts}, 0.3 * kind(random), random());
    const Plan plan = plan_of(loads, topology, {.allow_vacant = repeat % 2 == 0});
    RowOfSlots row = planned_row(plan, LayerId{0});
    const ConnectOptions options{
        .max_pressure = (1.0 + 0.02 * kind(random)) * mean_pressure(loads, LayerId{0}, topology),
        .within_nodes = repeat % 3 == 0};
    expect_sound(loads.layer(LayerId{0}), topology, options, row);
  }
}

// A copy moved into another rank's vacant slot would leave its own rank with one vacant slot more (I3).
TEST(ConnectReplicas, LeavesVacantSlotsWhereTheyAre) {
  const auto topology = Topology::make_uniform(4, 1, 12).value();
  RowOfSlots row;
  for (int e : {0, 1, 2, 0, 1, 3, 4, 5, -1, 4, 6, 7}) row.push_back(ExpertId{e});
  const auto loads = loads_of({1, 8}, {6, 6, 3, 3, 1, 1, 3, 3});
  const Connection result = connect_replicas(loads.layer(LayerId{0}), topology, {.max_pressure = 100.0}, row);
  EXPECT_EQ(result.components, 1);
  EXPECT_GT(result.swaps, 0);
  for (SlotId slot : ids<SlotId>(12)) EXPECT_EQ(row[slot.index()] == no_expert, slot == SlotId{8});
}

TEST(ConnectReplicas, LeavesAConnectedEvenRowAsItIs) {
  const auto topology = Topology::make_uniform(3, 1, 6).value();
  RowOfSlots row;
  for (int e : {0, 1, 1, 2, 2, 0}) row.push_back(ExpertId{e});
  const RowOfSlots before = row;
  const auto loads = loads_of({1, 3}, {6, 6, 6});
  const Connection result = connect_replicas(loads.layer(LayerId{0}), topology, {}, row);
  EXPECT_EQ(row, before);
  EXPECT_EQ(result.swaps, 0);
  EXPECT_EQ(result.components, 1);
}

TEST(ConnectReplicas, TakesZeroLoad) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const auto loads = uniform_loads({1, 256}, 0.0);
  RowOfSlots row;
  for (SlotId slot : ids<SlotId>(288)) row.push_back(ExpertId{slot.value() % 256});
  EXPECT_EQ(expect_sound(loads.layer(LayerId{0}), topology, {}, row).components, 1);
}

// Why it is done: the same plan some drift later, with the shares that suit it best and not one weight moved.
TEST(ConnectReplicas, LetsASplitAbsorbDrift) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const auto loads = lognormal_loads({12, 256}, 0.5, 7);
  const Plan plan = plan_of(loads, topology);
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> drift(0.0, 0.05);
  double unconnected = 0.0;
  double connected = 0.0;
  for (LayerId layer : ids<LayerId>(12)) {
    const RowOfSlots planned = planned_row(plan, layer);
    RowOfSlots row = planned;
    connect_replicas(loads.layer(layer), topology,
                     {.max_pressure = 1.01 * mean_pressure(loads, layer, topology)}, row);
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<double> drifted;
      for (double load : loads.layer(layer)) drifted.push_back(load * drift(random));
      unconnected += best_split_imbalance(drifted, planned, topology) / (12 * 4);
      connected += best_split_imbalance(drifted, row, topology) / (12 * 4);
    }
  }
  EXPECT_GT(unconnected, 1.01);
  EXPECT_LT(connected, 1.002);
  RecordProperty("unconnected", std::to_string(unconnected));
  RecordProperty("connected", std::to_string(connected));
}

TEST(BestSplitImbalance, IsThatOfHandMadeCases) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const std::vector<ExpertId> row{ExpertId{0}, ExpertId{1}, ExpertId{0}, ExpertId{2}};
  EXPECT_NEAR(best_split_imbalance(std::vector<double>{10, 6, 2}, row, topology), 1.0, 1e-9);
  EXPECT_NEAR(best_split_imbalance(std::vector<double>{2, 10, 4}, row, topology), 10.0 / 8.0, 1e-9);
}

}  // namespace
}  // namespace trimtab::test
