// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/program.hpp>

#include "migrate/staging.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <set>

namespace trimtab::test {
namespace {

constexpr std::size_t bundle = 100;

Result<Program> build(const Placement& from, const Placement& to, const Topology& topology,
                      std::size_t budget = 1 << 20, Epoch epoch = Epoch{7}) {
  const std::vector<std::size_t> bundle_bytes(static_cast<std::size_t>(from.num_layers()), bundle);
  return build_program({.epoch = epoch,
                        .from = from,
                        .to = to,
                        .topology = topology,
                        .bundle_bytes = bundle_bytes,
                        .staging_budget_bytes = budget});
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

TEST(Program, RefusesABudgetThatOneLayerExceedsAndSaysWhatItNeeds) {
  const auto program = build(one_layer(4, {0, 1, 2, 3}), one_layer(4, {2, 3, 0, 1}), uniform(2, 1, 4), 200);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Errc::infeasible);
  EXPECT_EQ(program.error().message, "layer 0: rank 0 needs 256 bytes of staging > budget 200");
}

TEST(Program, RefusesAnExpertWhoseLastReplicaIsOnADeadRank) {  // vllm-project/vllm#41204
  const auto topology = Topology::make({{NodeId{0}, 2, 1.0, true}, {NodeId{0}, 1, 1.0, false}});
  ASSERT_TRUE(topology);
  const auto program = build(one_layer(2, {0, 0, 1}), one_layer(2, {0, 1, -1}), *topology);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Errc::infeasible);
  EXPECT_EQ(program.error().message, "layer 0: no live slot holds expert 1, which slot 1 needs");
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
  EXPECT_EQ(hashes.size(), 6U);
  EXPECT_TRUE(hashes.contains(build(from, to, uniform(2, 1, 6))->hash));
}

/// What every program must be, whatever the two placements: unchanged slots untouched, each changed slot
/// written once, sources that hold the expert.
void check_program(const Placement& from, const Placement& to, const Topology& topology) {
  const auto program = build(from, to, topology, 40 * staged_bytes(bundle));
  ASSERT_TRUE(program) << program.error().message;
  Placement placement = from;
  for (const Step& step : program->steps) {
    std::set<std::pair<LayerId, SlotId>> written;
    for (const Move& move : step.moves) {
      EXPECT_TRUE(written.emplace(move.layer, move.destination).second);
      EXPECT_NE(placement.expert_at(move.layer, move.destination), move.expert);
      const bool same_rank = topology.rank_of(move.source) == topology.rank_of(move.destination);
      EXPECT_EQ(same_rank, move.kind != MoveKind::transfer);
      const Placement& holder = move.kind == MoveKind::reuse ? to : placement;
      EXPECT_EQ(holder.expert_at(move.layer, move.source), move.expert);
    }
    placement = apply(placement, step);
  }
  EXPECT_EQ(placement, to);
}

TEST(Program, LeadsFromAnyPlacementToAnyOther) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto ranks = static_cast<std::int32_t>(1 + seed % 6);
    const auto nodes =
        static_cast<std::int32_t>(1 + seed % 2) > ranks ? 1 : static_cast<std::int32_t>(1 + seed % 2);
    const auto experts = static_cast<std::int32_t>(1 + seed % 9);
    const std::int32_t slots = experts + static_cast<std::int32_t>(seed % 7);
    check_program(random_placement(3, slots, experts, 2 * seed),
                  random_placement(3, slots, experts, 2 * seed + 1), uniform(ranks, nodes, slots));
  }
}

}  // namespace
}  // namespace trimtab::test
