// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/program.hpp>

#include "migrate/staging.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>

namespace trimtab::test {
namespace {

constexpr std::size_t bundle = 100;

Result<Program> build(const Placement& from, const Placement& to, const Topology& topology,
                      std::size_t budget = 1 << 20, Epoch epoch = Epoch{7},
                      std::optional<std::size_t> stall = std::nullopt, bool has_source = false) {
  const std::vector<std::size_t> bundle_bytes(static_cast<std::size_t>(from.num_layers()), bundle);
  return build_program({.epoch = epoch,
                        .from = from,
                        .to = to,
                        .topology = topology,
                        .bundle_bytes = bundle_bytes,
                        .staging_budget_bytes = budget,
                        .stall_budget_bytes = stall,
                        .has_source = has_source});
}

Move transfer(std::int32_t expert, std::int32_t source, std::int32_t destination) {
  return {LayerId{0}, ExpertId{expert}, SlotId{source}, SlotId{destination}, MoveKind::transfer};
}

TEST(Program, ExchangesTwoExpertsAndSkipsTheUnchanged) {
  const auto program = build(one_layer(4, {0, 1, 2, 3}), one_layer(4, {0, 2, 1, 3}), uniform(2, 1, 4));
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->steps.size(), 1U);
  EXPECT_EQ(program->steps[0].moves, (std::vector<Move>{transfer(2, 2, 1), transfer(1, 1, 2)}));
  EXPECT_EQ(program->cost.slots_moved, 2);
  EXPECT_EQ(program->cost.bytes_moved, 2 * bundle);
  EXPECT_EQ(program->cost.bytes_copied, 0U);
}

TEST(Program, IsEmptyWhenNothingChanges) {
  const Placement same = one_layer(4, {0, 1, 2, 3});
  const auto program = build(same, same, uniform(2, 1, 4));
  ASSERT_TRUE(program);
  EXPECT_TRUE(program->steps.empty());
  EXPECT_EQ(program->staging_bytes, 0U);
}

TEST(Program, CopiesInsideARankInsteadOfReceiving) {
  const auto program = build(one_layer(2, {0, 1, 0, 1}), one_layer(2, {1, 1, 0, 1}), uniform(2, 1, 4));
  ASSERT_TRUE(program);
  const Move expected{LayerId{0}, ExpertId{1}, SlotId{1}, SlotId{0}, MoveKind::local_copy};
  EXPECT_EQ(program->steps[0].moves, std::vector<Move>{expected});
  EXPECT_EQ(program->cost.slots_moved, 0);
  EXPECT_EQ(program->cost.bytes_copied, bundle);
}

TEST(Program, ReceivesAnExpertOnceForSeveralSlotsOfARank) {
  const auto program =
      build(one_layer(4, {0, 1, 2, 2, 3, 3}), one_layer(4, {0, 1, 2, 0, 0, 3}), uniform(2, 1, 6));
  ASSERT_TRUE(program);
  const Move copied{LayerId{0}, ExpertId{0}, SlotId{3}, SlotId{4}, MoveKind::reuse};
  EXPECT_EQ(program->steps[0].moves, (std::vector<Move>{transfer(0, 0, 3), copied}));
  EXPECT_EQ(program->cost.bytes_moved, bundle);
  EXPECT_EQ(program->cost.bytes_copied, bundle);
  EXPECT_EQ(program->cost.slots_moved, 2);
}

TEST(Program, PrefersASourceOnTheSameNode) {
  // Ranks 0, 1 | 2, 3. Expert 0 lies on ranks 0 and 2; rank 3 gets it from rank 2.
  const auto program = build(one_layer(3, {0, 1, 0, 2}), one_layer(3, {2, 1, 0, 0}), uniform(4, 2, 4));
  ASSERT_TRUE(program);
  EXPECT_EQ(program->steps[0].moves[1], transfer(0, 2, 3));
  EXPECT_EQ(program->cost.bytes_across_nodes, bundle);  // Expert 2 from rank 3 to rank 0.
}

TEST(Program, SpreadsSendingOverEqualSources) {
  // Ranks 0 and 1 both hold expert 0; ranks 2 and 3 need it: each sends once.
  const auto program =
      build(one_layer(2, {0, 0, 1, 1, 1, 1}), one_layer(2, {0, 0, 0, 0, 1, 1}), uniform(6, 1, 6));
  ASSERT_TRUE(program);
  EXPECT_EQ(program->steps[0].moves, (std::vector<Move>{transfer(0, 0, 2), transfer(0, 1, 3)}));
}

TEST(Program, LetsSlotsBecomeVacantWithoutMovingBytes) {
  const auto program = build(one_layer(2, {0, 1, 0, 1}), one_layer(2, {0, 1, 0, -1}), uniform(2, 1, 4));
  ASSERT_TRUE(program);
  EXPECT_TRUE(program->steps[0].moves.empty());
  EXPECT_EQ(program->steps[0].vacations, (std::vector<Vacation>{{LayerId{0}, SlotId{3}}}));
  EXPECT_EQ(program->staging_bytes, 0U);
}

TEST(Program, CutsLayersIntoStepsThatFitTheBudget) {
  const Placement from = random_placement(6, 12, 8, 1);
  const Placement to = random_placement(6, 12, 8, 2);
  const Topology topology = uniform(3, 1, 12);
  const auto whole = build(from, to, topology);
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->steps.size(), 1U);
  const std::size_t budget = 4 * staged_bytes(bundle);  // All four slots of a rank, one layer.
  const auto cut = build(from, to, topology, budget);
  ASSERT_TRUE(cut);
  EXPECT_GT(cut->steps.size(), 1U);
  EXPECT_LE(cut->staging_bytes, budget);
  Placement placement = from;
  for (const Step& step : cut->steps) placement = apply(placement, step);
  EXPECT_EQ(placement, to);
  EXPECT_NE(cut->hash, whole->hash);
}

Move move(std::int32_t expert, std::int32_t source, std::int32_t destination, MoveKind kind,
          std::int32_t round = 0) {
  return {LayerId{0}, ExpertId{expert}, SlotId{source}, SlotId{destination}, kind, round};
}

TEST(Program, CrossesIntoANodeOnceAndRelaysThere) {
  // Ranks 0, 1 | 2, 3, 4, 5; expert 0 comes to slots of ranks 3, 4 and 5.
  const auto topology = Topology::make(
      {{NodeId{0}, 1}, {NodeId{0}, 1}, {NodeId{1}, 1}, {NodeId{1}, 1}, {NodeId{1}, 1}, {NodeId{1}, 1}});
  ASSERT_TRUE(topology);
  const auto program = build(one_layer(2, {0, 1, 1, 1, 1, 1}), one_layer(2, {0, 1, 1, 0, 0, 0}), *topology);
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->steps.size(), 1U);
  EXPECT_EQ(program->steps[0].moves,
            (std::vector<Move>{move(0, 0, 3, MoveKind::transfer), move(0, 3, 4, MoveKind::relay, 1),
                               move(0, 3, 5, MoveKind::relay, 2)}));
  EXPECT_EQ(program->steps[0].num_rounds, 3);
  EXPECT_EQ(program->cost.bytes_moved, 3 * bundle);
  EXPECT_EQ(program->cost.bytes_across_nodes, bundle);
}

TEST(Program, WritesTheOnlySourceLast) {
  // Expert 2 lies in slot 2 alone and must go to slot 0 first; slot 3 holds a second copy of 3 for slot 2.
  const auto program =
      build(one_layer(4, {0, 1, 2, 3, 3, 0}), one_layer(4, {2, 1, 3, 3, 3, 0}), uniform(1, 1, 6), 128);
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->steps.size(), 2U);
  EXPECT_EQ(program->steps[0].moves, std::vector<Move>{move(2, 2, 0, MoveKind::local_copy)});
  EXPECT_EQ(program->steps[1].moves, std::vector<Move>{move(3, 3, 2, MoveKind::local_copy)});
  EXPECT_EQ(program->cost.bytes_extra, 0U);
}

TEST(Program, KeepsACycleOverRanksInOneStep) {
  // Slots 0 -> 2 -> 4 -> 0 on three ranks, one bundle each; slots 1 and 3 exchange in a step of their own.
  const auto program =
      build(one_layer(6, {0, 1, 2, 3, 4, 5}), one_layer(6, {4, 3, 0, 1, 2, 5}), uniform(3, 1, 6), 128);
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->steps.size(), 2U);
  EXPECT_EQ(program->steps[0].moves.size() + program->steps[1].moves.size(), 5U);
  EXPECT_EQ(program->cost.exchanges_forced, 0);
  EXPECT_EQ(program->cost.bytes_moved, program->cost.bytes_moved_bound);
}

TEST(Program, CutsACycleThatVisitsARankTooOftenByAnExchangeInsideIt) {
  // Both ranks give both experts away, and the four slots form one cycle: 0 -> 2 -> 1 -> 3 -> 0.
  const auto program = build(one_layer(4, {0, 1, 2, 3}), one_layer(4, {3, 2, 0, 1}), uniform(2, 1, 4), 128);
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->steps.size(), 3U);
  EXPECT_EQ(program->steps[0].moves,
            (std::vector<Move>{move(1, 1, 0, MoveKind::local_copy), move(0, 0, 1, MoveKind::displaced)}));
  EXPECT_EQ(program->cost.exchanges_forced, 1);
  EXPECT_EQ(program->cost.bytes_extra, 2 * bundle);
  EXPECT_EQ(program->cost.bytes_moved, 4 * bundle);
  EXPECT_EQ(program->cost.bytes_moved_bound, 4 * bundle);
  EXPECT_EQ(program->staging_bytes, staged_bytes(bundle));
}

TEST(Program, CutsACycleIntoPiecesThatAStepCanJustTake) {
  // One cycle through all eight slots, four on each rank; two bundles of staging.
  const auto program = build(one_layer(8, {0, 1, 2, 3, 4, 5, 6, 7}), one_layer(8, {7, 4, 5, 6, 0, 1, 2, 3}),
                             uniform(2, 1, 8), 256);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->cost.exchanges_forced, 1);
  EXPECT_EQ(program->steps.size(), 3U);
}

TEST(Program, RotatesTheSlotsOfASingleRankThroughOneBundle) {
  const auto program =
      build(one_layer(5, {0, 1, 2, 3, 4}), one_layer(5, {4, 0, 1, 2, 3}), uniform(1, 1, 5), 128);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->steps.size(), 4U);
  EXPECT_EQ(program->cost.bytes_moved, 0U);
  EXPECT_EQ(program->cost.bytes_extra, 3 * bundle);
}

TEST(Program, KeepsStepsBelowTheStallBudget) {
  const Placement from = random_placement(4, 12, 12, 1);
  const Placement to = random_placement(4, 12, 12, 2);
  const auto free = build(from, to, uniform(3, 1, 12));
  const auto limited = build(from, to, uniform(3, 1, 12), 1 << 20, Epoch{7}, 3 * bundle);
  ASSERT_TRUE(free);
  ASSERT_TRUE(limited);
  EXPECT_EQ(free->steps.size(), 1U);
  EXPECT_GT(free->stall_bytes, 3 * bundle);
  EXPECT_LE(limited->stall_bytes, 3 * bundle);
}

TEST(StallBudget, IsTimeTimesMeasuredRate) {
  EXPECT_EQ(*stall_budget(std::chrono::milliseconds(3), 2e9), 6'000'000U);
  EXPECT_EQ(*stall_budget(std::chrono::milliseconds(0), 2e9), 0U);
  EXPECT_EQ(stall_budget(std::chrono::milliseconds(1), 0.0).error().message,
            "a copy rate of 0 bytes/s is not a positive number");
  EXPECT_EQ(stall_budget(std::chrono::nanoseconds(-1), 1.0).error().message, "a stall of -1 ns is negative");
  EXPECT_FALSE(stall_budget(std::chrono::milliseconds(1), std::nan("")));
}

TEST(Program, RefusesABudgetBelowOneBundleAndSaysWhatItNeeds) {
  const auto program = build(one_layer(4, {0, 1, 2, 3}), one_layer(4, {2, 3, 0, 1}), uniform(2, 1, 4), 127);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Errc::infeasible);
  EXPECT_EQ(program.error().message,
            "layer 0: one bundle of 100 bytes needs 128 bytes of staging > budget 127");
}

TEST(Program, RefusesAnExpertWhoseLastReplicaIsOnADeadRank) {  // vllm-project/vllm#41204
  const auto topology = Topology::make({{NodeId{0}, 2, 1.0, true}, {NodeId{0}, 1, 1.0, false}});
  ASSERT_TRUE(topology);
  const auto program = build(one_layer(2, {0, 0, 1}), one_layer(2, {0, 1, -1}), *topology);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Errc::infeasible);
  EXPECT_EQ(program.error().message,
            "layer 0: no live slot holds expert 1, which slot 1 needs, and it has no source");
}

TEST(Program, ReadsALostExpertOnEveryNodeAlsoWhenStepsLieBetween) {
  const auto topology =
      Topology::make({{NodeId{0}, 1, 1.0, true}, {NodeId{1}, 4, 1.0, true}, {NodeId{2}, 2, 1.0, false}});
  ASSERT_TRUE(topology);
  const auto program = build(one_layer(4, {2, 2, 2, 2, 1, 0, 3}), one_layer(4, {0, 1, 2, 3, 0, -1, -1}),
                             *topology, staged_bytes(bundle), Epoch{7}, std::nullopt, true);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_GT(program->steps.size(), 1U);
  EXPECT_EQ(program->cost.bytes_recovered, 3 * bundle);  // Expert 0 on two nodes, expert 3 on one.
  EXPECT_EQ(program->cost.bytes_moved, 0U);
  EXPECT_EQ(program->cost.bytes_moved_bound, 0U);
}

TEST(Program, RefusesPlacementsOfDifferentShape) {
  const auto program = build(one_layer(4, {0, 1, 2, 3}), one_layer(4, {0, 1, 2, 3, 0, 1}), uniform(2, 1, 4));
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Errc::invalid_argument);
}

TEST(Program, HashCoversEverythingThatMustAgree) {
  const Placement from = one_layer(4, {0, 1, 2, 3, 0, 1});
  const Placement to = one_layer(4, {0, 2, 1, 3, 0, 1});
  std::set<std::uint64_t> hashes;
  hashes.insert(build(from, to, uniform(2, 1, 6))->hash);
  hashes.insert(build(from, to, uniform(2, 1, 6), 1 << 20, Epoch{8})->hash);
  hashes.insert(build(from, to, uniform(3, 1, 6))->hash);
  hashes.insert(build(from, to, uniform(2, 2, 6))->hash);
  hashes.insert(build(from, to, uniform(2, 1, 6), 1 << 19)->hash);
  hashes.insert(build(from, one_layer(4, {0, 2, 1, 3, 0, 3}), uniform(2, 1, 6))->hash);
  for (const std::size_t stall : {0U, 1000U, 1001U})
    hashes.insert(build(from, to, uniform(2, 1, 6), 1 << 20, Epoch{7}, stall)->hash);
  EXPECT_EQ(hashes.size(), 9U);
  EXPECT_TRUE(hashes.contains(build(from, to, uniform(2, 1, 6))->hash));
}

}  // namespace
}  // namespace trimtab::test
