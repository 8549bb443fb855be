// SPDX-License-Identifier: Apache-2.0
//
// Programs run by engines over real bytes: what build_program promises of kinds, order and staging must hold
// for the engine that executes it.
#include "migrate/staging.hpp"
#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/faulty.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace trimtab::test {
namespace {

constexpr std::size_t one_bundle = 192;  // Of GuardedWeights.
static_assert(staged_bytes(one_bundle) == one_bundle);

EngineOptions options(std::size_t budget) {
  EngineOptions options;
  options.staging_budget_bytes = budget;
  options.deadline = std::chrono::seconds(5);
  options.verify_sample = 100;
  return options;
}

std::size_t count(const Program& program, MoveKind kind) {
  std::size_t sum = 0;
  for (const Step& step : program.steps) {
    sum += static_cast<std::size_t>(
        std::ranges::count_if(step.moves, [&](const Move& move) { return move.kind == kind; }));
  }
  return sum;
}

/// Runs the program and compares every byte; returns it.
Program run(const Topology& topology, const Placement& from, const Placement& to, std::size_t budget) {
  Cluster cluster(topology, from, options(budget));
  Program program = cluster.make_program(to);
  cluster.begin(to);
  EXPECT_TRUE(cluster.run_until_idle({}, 100'000));
  EXPECT_EQ(cluster.find_difference(to), "");
  std::uint64_t received = 0;
  std::uint64_t copied = 0;
  for (std::size_t r = 0; r < cluster.num_ranks(); ++r) {
    EXPECT_EQ(cluster.engine(r).counters().steps_rolled_back, 0U);
    EXPECT_EQ(cluster.engine(r).placement(), to);
    received += cluster.engine(r).counters().bytes_moved;
    copied += cluster.engine(r).counters().bytes_copied;
  }
  EXPECT_EQ(received, program.cost.bytes_moved_bound);
  EXPECT_EQ(copied, program.cost.bytes_copied);
  return program;
}

TEST(ProgramRun, RelaysInsideANode) {
  // Both experts of the first node come to every rank of the second, which relays them crosswise.
  const Program program =
      run(uniform(8, 2, 16), one_layer(4, {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3}),
          one_layer(4, {2, 1, 2, 1, 3, 1, 0, 3, 2, 0, 0, 3, 0, 1, 1, 0}), 1 << 20);
  EXPECT_GT(count(program, MoveKind::relay), 3U);
}

TEST(ProgramRun, ExchangesInPlaceWithOneBundleOfStaging) {
  const Program program = run(uniform(2, 1, 8), one_layer(8, {0, 1, 2, 3, 4, 5, 6, 7}),
                              one_layer(8, {7, 6, 5, 4, 0, 1, 2, 3}), one_bundle);
  EXPECT_GT(count(program, MoveKind::displaced), 0U);
}

TEST(ProgramRun, ExchangesBesideOtherMovesOfTheRank) {
  // Slots 0 and 4 change sides; the other six form a cycle that visits each rank three times.
  const Program program = run(uniform(2, 1, 8), one_layer(8, {0, 1, 2, 3, 4, 5, 6, 7}),
                              one_layer(8, {4, 7, 5, 6, 0, 1, 2, 3}), 2 * one_bundle);
  EXPECT_EQ(count(program, MoveKind::displaced), 1U);
  EXPECT_EQ(program.steps.front().moves.size(), 4U);
}

TEST(ProgramRun, RelaysInOrderAlthoughBundlesArriveInAnother) {
  // Rank 2 relays experts 0 and 4 to rank 3; 0, the first of them, is held up on its way from rank 0.
  const Topology topology = uniform(4, 2, 16);
  const Placement from = one_layer(8, {0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7});
  const Placement to = one_layer(8, {0, 1, 2, 3, 4, 5, 6, 6, 0, 1, 4, 7, 0, 1, 4, 7});
  std::vector<Fault> faults;
  for (const auto& [size, count] :
       {std::pair(8U, 2U), std::pair(16U, 2U), std::pair(48U, 1U), std::pair(96U, 1U)}) {
    const LegMatcher leg{.side = Side::send, .peer = Rank{2}, .size_bytes = size};
    for (std::uint64_t i = 0; i < count; ++i) faults.push_back({leg, FaultAction::delay, i});
  }
  const auto script = std::make_shared<FaultScript>(faults);
  const auto wrap = [&](Rank at, std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
    if (at != Rank{0}) return inner;
    return std::make_unique<FaultyTransport>(std::move(inner), script);
  };
  Cluster cluster(topology, from, options(3 * one_bundle), wrap);
  const Program program = cluster.make_program(to);
  EXPECT_EQ(std::ranges::count_if(program.steps[0].moves,
                                  [](const Move& move) {
                                    return move.kind == MoveKind::relay && move.destination >= SlotId{12};
                                  }),
            2);
  cluster.begin(to);
  for (int i = 0; i < 50; ++i) cluster.tick();
  EXPECT_EQ(script->num_struck(), faults.size());
  script->release_delayed();
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(cluster.find_difference(to), "");
}

/// Strikes the bundles that each rank sends, one after another; each time every rank must be as before.
void strike_each_leg(FaultAction action) {
  const Topology topology = uniform(4, 2, 12);
  const Placement from = one_layer(5, {0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4});
  const Placement to = one_layer(5, {1, 0, 2, 3, 4, 4, 2, 3, 4, 2, 3, 4});
  std::size_t num_rolled_back = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::uint64_t occurrence = 0;; ++occurrence) {
      std::shared_ptr<FaultScript> script;
      const auto wrap = [&](Rank at, std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
        if (at.index() != rank) return inner;
        const LegMatcher w13{.side = Side::send, .size_bytes = 96};  // One leg of each bundle.
        script = std::make_shared<FaultScript>(std::vector<Fault>{{w13, action, occurrence}});
        return std::make_unique<FaultyTransport>(std::move(inner), script);
      };
      Cluster cluster(topology, from, options(2 * one_bundle), wrap);
      cluster.begin(to);
      ASSERT_TRUE(cluster.run_until_idle(std::chrono::milliseconds(100), 10'000));
      if (script->num_struck() == 0) break;
      ++num_rolled_back;
      EXPECT_EQ(cluster.find_difference(from), "") << "rank " << rank << ", bundle " << occurrence;
      for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(cluster.engine(r).counters().steps_rolled_back, 1U);
    }
  }
  EXPECT_EQ(num_rolled_back, 4U);  // Two bundles cross, two are relayed.
}

TEST(ProgramRun, RollsBackWhateverPayloadIsDamaged) { strike_each_leg(FaultAction::corrupt); }

TEST(ProgramRun, RollsBackWhateverPayloadIsLost) { strike_each_leg(FaultAction::drop); }

TEST(ProgramRun, LeadsFromAnyPlacementToAnyOtherWithinTheBudget) {
  std::size_t relays = 0;
  std::size_t exchanges = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto ranks = static_cast<std::int32_t>(1 + seed % 7);
    const auto nodes = std::min(ranks, static_cast<std::int32_t>(1 + seed % 3));
    const auto experts = static_cast<std::int32_t>(2 + seed % 9);
    const std::int32_t slots = experts + static_cast<std::int32_t>(seed % 8);
    const Program program =
        run(uniform(ranks, nodes, slots), random_placement(2, slots, experts, 2 * seed),
            random_placement(2, slots, experts, 2 * seed + 1), one_bundle * (1 + seed % 4));
    relays += count(program, MoveKind::relay);
    exchanges += count(program, MoveKind::displaced);
  }
  EXPECT_GT(relays, 0U);
  EXPECT_GT(exchanges, 0U);
}

}  // namespace
}  // namespace trimtab::test
