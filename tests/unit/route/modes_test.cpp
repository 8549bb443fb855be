// SPDX-License-Identifier: Apache-2.0
// What each mode promises beyond what all of them do (dispatch_test.cpp).
#include <trimtab/route/router.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace trimtab::test {
namespace {

constexpr LayerId layer0{0};
constexpr ExpertId expert0{0};

using Slots = std::vector<SlotId>;

std::map<SlotId, std::int64_t> counts_of(const Slots& slots) {
  std::map<SlotId, std::int64_t> counts;
  for (SlotId slot : slots) ++counts[slot];
  return counts;
}

Slots dispatch(Router& router, const RoutingTable& table, const std::vector<ExpertId>& experts,
               const Batch& batch = {}) {
  Slots slots(experts.size());
  const Status status = router.dispatch(table, layer0, experts, slots, batch);
  EXPECT_TRUE(status) << status.error().message;
  return slots;
}

/// The slot that each rank uses for expert 0.
Slots nearest_by_rank(const RoutingTable& table) {
  Slots slots;
  for (Rank rank : ids<Rank>(table.topology().num_ranks())) {
    Router router(1, table.num_experts(), rank, {.mode = DispatchMode::nearest});
    const Slots chosen = dispatch(router, table, {expert0, expert0, expert0});
    EXPECT_EQ(chosen[0], chosen[2]);
    slots.push_back(chosen[0]);
  }
  return slots;
}

/// Ranks of one slot each, all experts 0 but those named 1.
RoutingTable one_slot_ranks(std::int32_t num_nodes, std::vector<std::int32_t> map,
                            const TableOptions& options = {}, std::vector<std::int64_t> assignments = {}) {
  const auto num_ranks = static_cast<std::int32_t>(map.size());
  const Placement placement = make_placement(2, {map});
  const Topology topology = Topology::make_uniform(num_ranks, num_nodes, num_ranks).value();
  if (assignments.empty()) {
    return RoutingTable::compile(placement, topology, {.epoch = Epoch{1}}, options).value();
  }
  return RoutingTable::compile(placement, topology, {.epoch = Epoch{1}},
                               Split::make(1, num_ranks, std::move(assignments)).value(), options)
      .value();
}

TEST(Nearest, TakesTheSameRankThenTheSameNode) {
  // Two nodes of four ranks; expert 0 on ranks 1, 4 and 6.
  const Slots slots = nearest_by_rank(one_slot_ranks(2, {1, 0, 1, 1, 0, 1, 0, 1}));
  for (const std::size_t rank : {0U, 1U, 2U, 3U}) EXPECT_EQ(slots[rank], SlotId{1});
  EXPECT_EQ(slots[4], SlotId{4});
  EXPECT_EQ(slots[6], SlotId{6});
}

// Where the first replica of a node takes all its ranks, one of two replicas gets seven eighths of the load.
TEST(Nearest, ReplicasOfANodeShareItsRanks) {
  const auto counts =
      counts_of(nearest_by_rank(one_slot_ranks(2, {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1})));
  EXPECT_EQ(counts.at(SlotId{0}), 4);
  EXPECT_EQ(counts.at(SlotId{1}), 4);
  EXPECT_EQ(counts.at(SlotId{10}), 4);
  EXPECT_EQ(counts.at(SlotId{13}), 4);
}

TEST(Nearest, NodesWithoutAReplicaMakeUpForTheOthers) {
  // Four nodes of two ranks. Only node 0 and half of node 1's replicas are used by their own.
  const auto counts = counts_of(nearest_by_rank(one_slot_ranks(4, {0, 1, 0, 0, 1, 1, 1, 1})));
  // Due are 8/3 each; the ranks of nodes 2 and 3 fill up what slots 2 and 3 lack.
  EXPECT_GE(counts.at(SlotId{0}), 2);
  EXPECT_LE(counts.at(SlotId{0}), 3);
  EXPECT_GE(counts.at(SlotId{2}), 2);
  EXPECT_GE(counts.at(SlotId{3}), 2);
}

// What the nodes with replicas take anyway counts: their replicas differ in what is left for others.
TEST(Nearest, NodesWithoutAReplicaGoWhereMostIsMissing) {
  // Four nodes of eight ranks: one replica takes all of node 0, two share node 1.
  std::vector<std::int32_t> map(32, 1);
  map[0] = map[8] = map[12] = 0;
  const auto counts = counts_of(nearest_by_rank(one_slot_ranks(4, map)));
  for (const std::int32_t slot : {0, 8, 12}) {
    EXPECT_GE(counts.at(SlotId{slot}), 10) << slot;
    EXPECT_LE(counts.at(SlotId{slot}), 11) << slot;
  }
}

TEST(Nearest, RanksWeighByTheTokensTheySend) {
  // One node, replicas on ranks 0 and 1. Rank 2 sends as much as 3 to 7 together.
  const std::vector<std::int64_t> loads{10, 10, 50, 10, 10, 10, 10, 10};
  const Slots slots =
      nearest_by_rank(one_slot_ranks(1, {0, 0, 1, 1, 1, 1, 1, 1}, TableOptions{.source_loads = loads}));
  std::map<SlotId, std::int64_t> tokens;
  for (std::size_t rank = 0; rank < slots.size(); ++rank) tokens[slots[rank]] += loads[rank];
  EXPECT_EQ(tokens.at(SlotId{0}), 60);
  EXPECT_EQ(tokens.at(SlotId{1}), 60);
}

TEST(Nearest, MeetsSharesAsWellAsWholeRanksAllow) {
  // One node of 32 ranks, replicas on ranks 0, 1 and 2, which are to take 20, 8 and 4 of 32.
  std::vector<std::int32_t> map(32, 1);
  map[0] = map[1] = map[2] = 0;
  std::vector<std::int64_t> assignments(32, 1);
  assignments[0] = 20;
  assignments[1] = 8;
  assignments[2] = 4;
  const auto counts = counts_of(nearest_by_rank(one_slot_ranks(1, map, {}, assignments)));
  EXPECT_EQ(counts.at(SlotId{0}), 20);
  EXPECT_EQ(counts.at(SlotId{1}), 8);
  EXPECT_EQ(counts.at(SlotId{2}), 4);
}

TEST(Nearest, NodesMayBeInterleaved) {
  std::vector<RankInfo> ranks;
  for (int i = 0; i < 12; ++i) ranks.push_back({.node = NodeId{i % 3}, .num_slots = 1});
  // Expert 0 on ranks 0 and 3 (node 0); nodes 1 and 2 have none.
  const Placement placement = make_placement(2, {{0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1}});
  const RoutingTable table =
      RoutingTable::compile(placement, Topology::make(ranks).value(), {.epoch = Epoch{1}}).value();
  const auto counts = counts_of(nearest_by_rank(table));
  EXPECT_EQ(counts.at(SlotId{0}), 6);
  EXPECT_EQ(counts.at(SlotId{3}), 6);
}

TEST(Nearest, AReplicaWithoutAShareIsNotTakenByItsOwnRankEither) {
  const Slots slots = nearest_by_rank(one_slot_ranks(1, {0, 0, 1, 1}, {}, {0, 5, 3, 3}));
  EXPECT_EQ(slots, Slots(4, SlotId{1}));
}

// Ranks that hold the same tokens and add up their outputs must agree: sgl-project/sglang PR #32962.
TEST(RankInvariant, AllRanksChooseAlikeForTheSameTokens) {
  const RoutingTable table = one_slot_ranks(2, {0, 0, 1, 0, 1, 1, 0, 1}, {}, {1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<ExpertId> experts(640, expert0);
  Slots first;
  for (Rank rank : ids<Rank>(8)) {
    Router router(1, 2, rank, {.mode = DispatchMode::rank_invariant});
    const Slots slots = dispatch(router, table, experts, {.top_k = 8, .first_token = 1234});
    if (rank == Rank{0}) first = slots;
    EXPECT_EQ(slots, first);
    // Nor does it matter how the tokens are cut into batches, or what came before.
    EXPECT_EQ(dispatch(router, table, {experts.begin(), experts.begin() + 80},
                       {.top_k = 8, .first_token = 1234 + 30}),
              Slots(first.begin() + 240, first.begin() + 320));
  }
  // As quota would not: this is what the report is about.
  Router one(1, 2, Rank{0});
  Router other(1, 2, Rank{1});
  EXPECT_NE(dispatch(one, table, experts), dispatch(other, table, experts));
}

TEST(RankInvariant, MeetsSharesOverConsecutiveTokens) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::int64_t> assignments(2 + random() % 9);
    for (auto& count : assignments) count = static_cast<std::int64_t>(random() % 50);
    assignments[0] = 1;
    const std::vector<std::int32_t> map(assignments.size(), 0);
    const RoutingTable table =
        make_table(make_placement(1, {map}), 1,
                   Split::make(1, static_cast<std::int32_t>(map.size()), assignments).value());
    Router router(1, 1, Rank{0}, {.mode = DispatchMode::rank_invariant});
    constexpr int num_tokens = 20000;
    const auto counts = counts_of(
        dispatch(router, table, std::vector<ExpertId>(num_tokens, expert0), {.first_token = random()}));
    const auto sum = static_cast<double>(std::accumulate(assignments.begin(), assignments.end(), 0LL));
    for (std::size_t s = 0; s < assignments.size(); ++s) {
      const double due = num_tokens * static_cast<double>(assignments[s]) / sum;
      const auto found = counts.find(SlotId{static_cast<std::int32_t>(s)});
      const double got = found == counts.end() ? 0.0 : static_cast<double>(found->second);
      // Golden steps keep the deviation within a few tokens; sampling would be off by about 70.
      EXPECT_NEAR(got, due, 8.0) << testing::PrintToString(assignments);
    }
  }
}

// LP probabilities with sampling came out worse than even shares: the noise lifts the fullest rank. Here
// there is none: over every batch the loads are the shares.
TEST(Quota, ABatchHasNoSamplingNoise) {
  const RoutingTable table = one_slot_ranks(1, {0, 0, 1, 0}, {}, {50, 30, 1, 20});
  Router router(1, 2, Rank{2});
  for (int batch = 0; batch < 50; ++batch) {
    const auto counts = counts_of(dispatch(router, table, std::vector<ExpertId>(1000, expert0)));
    EXPECT_NEAR(static_cast<double>(counts.at(SlotId{0})), 500.0, 2.0);
    EXPECT_NEAR(static_cast<double>(counts.at(SlotId{1})), 300.0, 2.0);
    EXPECT_NEAR(static_cast<double>(counts.at(SlotId{3})), 200.0, 2.0);
  }
}

TEST(Quota, FirstAssignmentsOfTheRanksFollowTheShares) {
  const RoutingTable table = one_slot_ranks(1, {0, 0, 1, 0}, {}, {50, 30, 1, 20});
  std::map<SlotId, int> firsts;
  for (Rank rank : ids<Rank>(1000)) {
    Router router(1, 2, rank);
    ++firsts[dispatch(router, table, {expert0})[0]];
  }
  EXPECT_NEAR(firsts[SlotId{0}], 500, 10);
  EXPECT_NEAR(firsts[SlotId{1}], 300, 10);
  EXPECT_NEAR(firsts[SlotId{3}], 200, 10);
}

TEST(ExactBatch, MeetsEveryNumberExactly) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::int32_t> map{0, 0, 1, 0, 1, 0, 0, 1};
    const RoutingTable table = one_slot_ranks(1, map);
    std::vector<std::int64_t> assignments(map.size());
    std::vector<ExpertId> experts;
    for (std::size_t s = 0; s < map.size(); ++s) {
      assignments[s] = static_cast<std::int64_t>(random() % (round < 100 ? 4 : 400));
      experts.insert(experts.end(), static_cast<std::size_t>(assignments[s]), ExpertId{map[s]});
    }
    std::shuffle(experts.begin(), experts.end(), random);
    Router router(1, 2, Rank{3}, {.mode = DispatchMode::exact_batch});
    auto counts = counts_of(dispatch(router, table, experts, {.assignments = assignments}));
    for (std::size_t s = 0; s < map.size(); ++s) {
      EXPECT_EQ(counts[SlotId{static_cast<std::int32_t>(s)}], assignments[s]);
    }
  }
}

std::string exact_refusal(const std::vector<ExpertId>& experts,
                          const std::vector<std::int64_t>& assignments) {
  const RoutingTable table = one_slot_ranks(1, {0, 0, 1, 0}, {}, {50, 30, 1, 0});
  Router router(1, 2, Rank{0}, {.mode = DispatchMode::exact_batch});
  Slots slots(experts.size(), SlotId{77});
  const Status status = router.dispatch(table, layer0, experts, slots, {.assignments = assignments});
  if (status) return "accepted";
  EXPECT_EQ(slots, Slots(experts.size(), SlotId{77}));
  return status.error().message;
}

TEST(ExactBatch, NumbersThatDoNotFitTheBatchAreNamed) {
  const std::vector<ExpertId> experts{expert0, ExpertId{1}, expert0, no_expert};
  EXPECT_EQ(exact_refusal(experts, {1, 1, 1, 0}), "accepted");
  EXPECT_EQ(exact_refusal(experts, {1, 0, 1, 0}),
            "layer 0, expert 0: its slots are to take 1 assignments, the batch has 2");
  EXPECT_EQ(exact_refusal(experts, {1, 1, 2, 0}),
            "layer 0, expert 1: its slots are to take 2 assignments, the batch has 1");
  EXPECT_EQ(exact_refusal(experts, {1, 1, 1, 3}),
            "layer 0, slot 3: 3 assignments, but the routing table gives it no share");
  EXPECT_EQ(exact_refusal(experts, {1, 1, 1}), "layer 0: assignments of 3 slots, table of 4");
  EXPECT_EQ(exact_refusal(experts, {3, -1, 1, 0}),
            "layer 0, slot 1: -1 assignments are not in 0..1099511627776");
}

TEST(ExactBatch, OtherModesWantNoNumbers) {
  const RoutingTable table = one_slot_ranks(1, {0, 0, 1, 0});
  const std::vector<std::int64_t> assignments(4);
  for (const auto mode : {DispatchMode::nearest, DispatchMode::rank_invariant, DispatchMode::quota}) {
    Router router(1, 2, Rank{0}, {.mode = mode});
    Slots none;
    const Status status = router.dispatch(table, layer0, {}, none, {.assignments = assignments});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message,
              "layer 0: assignments are for mode exact-batch, not " + std::string(to_string(mode)));
  }
}

}  // namespace
}  // namespace trimtab::test
