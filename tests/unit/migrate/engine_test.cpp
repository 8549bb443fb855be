// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trimtab::test {
namespace {

EngineOptions options(std::size_t budget = 1 << 20) {
  EngineOptions options;
  options.staging_budget_bytes = budget;
  options.deadline = std::chrono::seconds(5);
  options.verify_sample = 100;
  return options;
}

/// Every forward that all ranks served was served under one epoch (M2).
void expect_one_epoch_per_forward(const Cluster& cluster) {
  const auto& served = cluster.served();
  std::size_t common = served.front().size();
  for (const auto& forwards : served) common = std::min(common, forwards.size());
  for (std::size_t f = 0; f < common; ++f) {
    for (std::size_t r = 0; r < served.size(); ++r)
      EXPECT_EQ(served[r][f], served[0][f]) << "forward " << f << ", rank " << r;
  }
}

TEST(Engine, MovesTwoOfFourExpertsAndTouchesNothingElse) {
  // Slots A B | C D become A C | B D.
  const Placement before = one_layer(4, {0, 1, 2, 3});
  const Placement after = one_layer(4, {0, 2, 1, 3});
  Cluster cluster(uniform(2, 1, 4), before, options());
  ASSERT_EQ(cluster.find_difference(before), "");
  const std::byte* base[] = {cluster.weights(0).base(), cluster.weights(1).base()};
  const auto snapshot = std::vector{cluster.weights(0).snapshot(), cluster.weights(1).snapshot()};

  cluster.begin(after);
  ASSERT_TRUE(cluster.run_until_idle());

  EXPECT_EQ(cluster.find_difference(after), "");
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(cluster.weights(r).base(), base[r]);
    EXPECT_EQ(cluster.engine(r).placement(), after);
    EXPECT_EQ(cluster.publisher(r).identity().epoch, Epoch{1});
    EXPECT_EQ(cluster.engine(r).counters().slots_moved, 1U);
    EXPECT_EQ(cluster.engine(r).counters().bytes_moved, 192U);
    // A and D: not a byte of their slots was even rewritten with another value.
    const SlotId kept{r == 0 ? 0 : 3};
    const ExpertStore& store = cluster.weights(r).store();
    for (std::size_t t = 0; t < store.tensors(LayerId{0}).size(); ++t) {
      const auto now = store.tensor_slot(LayerId{0}, t, kept);
      const auto offset = static_cast<std::size_t>(now.data() - base[r]);
      EXPECT_TRUE(
          std::equal(now.begin(), now.end(), snapshot[r].begin() + static_cast<std::ptrdiff_t>(offset)));
    }
  }
  expect_one_epoch_per_forward(cluster);
}

TEST(Engine,
     ReachesAnyPlacementOverManyRounds) {  // NVIDIA/TensorRT-LLM#15538: one round passed with the fault in.
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto ranks = static_cast<std::int32_t>(1 + seed % 5);
    const Topology topology = uniform(ranks, ranks > 2 ? 2 : 1, 14);
    Cluster cluster(topology, random_placement(3, 14, 9, 1000 + seed), options());
    for (std::uint64_t round = 0; round < 4; ++round) {
      const Placement next = random_placement(3, 14, 9, 100 * seed + round);
      cluster.begin(next);
      ASSERT_TRUE(cluster.run_until_idle());
      ASSERT_EQ(cluster.find_difference(next), "") << "seed " << seed << ", round " << round;
    }
    expect_one_epoch_per_forward(cluster);
  }
}

TEST(Engine, CommitsStepByStepUnderASmallStagingBudget) {
  const Placement from = random_placement(6, 12, 8, 1);
  const Placement to = random_placement(6, 12, 8, 2);
  const std::size_t one_layer_of_a_rank = 4 * 192;
  Cluster cluster(uniform(3, 1, 12), from, options(one_layer_of_a_rank));
  const std::size_t steps = cluster.make_program(to).steps.size();
  ASSERT_GT(steps, 1U);
  cluster.begin(to);
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(cluster.find_difference(to), "");
  EXPECT_EQ(cluster.publisher(0).identity().epoch, Epoch{steps});
  expect_one_epoch_per_forward(cluster);
}

TEST(Engine, CommitsVacanciesThroughTheProtocol) {
  const Placement after = one_layer(2, {0, 1, -1, 0});
  Cluster cluster(uniform(2, 1, 4), one_layer(2, {0, 1, 1, 0}), options());
  cluster.begin(after);
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(cluster.engine(0).placement(), after);
  EXPECT_EQ(cluster.publisher(1).identity().epoch, Epoch{1});
}

TEST(Engine, WaitsForBatchesThatStillUseTheOldTable) {
  const Placement after = one_layer(4, {0, 2, 1, 3});
  Cluster cluster(uniform(2, 1, 4), one_layer(4, {0, 1, 2, 3}), options());
  TableReader reader = cluster.publisher(1).make_reader();
  {
    const TableLease in_flight = reader.acquire();
    cluster.begin(after);
    EXPECT_FALSE(cluster.run_until_idle({}, 50));
    EXPECT_EQ(in_flight->identity().epoch, Epoch{0});
    EXPECT_EQ(cluster.publisher(1).identity().epoch, Epoch{0});
    EXPECT_EQ(cluster.weights(1).find_difference(one_layer(4, {0, 1, 2, 3})), "");
    EXPECT_EQ(cluster.engine(1).health().state, StepState::draining);
  }
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(cluster.find_difference(after), "");
}

TEST(Engine, TellsItsObserverOfEachCommit) {
  struct Observer final : EngineObserver {
    void on_commit(const Step& step, Epoch epoch) override {
      moves += step.moves.size();
      last = epoch;
    }
    std::size_t moves = 0;
    Epoch last;
  } observer;
  Cluster cluster(uniform(2, 1, 4), one_layer(4, {0, 1, 2, 3}), options());
  cluster.engine(1).set_observer(&observer);
  cluster.begin(one_layer(4, {0, 2, 1, 3}));
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(observer.moves, 2U);
  EXPECT_EQ(observer.last, Epoch{1});
}

TEST(Engine, RemembersPlacementsUntilToldToForget) {
  const Placement before = one_layer(4, {0, 1, 2, 3});
  Cluster cluster(uniform(2, 1, 4), before, options());
  cluster.begin(one_layer(4, {0, 2, 1, 3}));
  ASSERT_TRUE(cluster.run_until_idle());
  Engine& engine = cluster.engine(0);
  ASSERT_NE(engine.placement_of(Epoch{0}), nullptr);
  EXPECT_EQ(*engine.placement_of(Epoch{0}), before);
  engine.forget_before(Epoch{9});
  EXPECT_EQ(engine.placement_of(Epoch{0}), nullptr);
  EXPECT_NE(engine.placement_of(Epoch{1}), nullptr);
}

TEST(Engine, RefusesProgramsThatCannotRun) {
  Cluster cluster(uniform(2, 1, 4), one_layer(4, {0, 1, 2, 3}), options(200));
  Engine& engine = cluster.engine(0);
  EXPECT_EQ(engine.begin(Program{}).error().message, "the program has no step");

  Program program = cluster.make_program(one_layer(4, {0, 2, 1, 3}));
  program.epoch = Epoch{3};
  EXPECT_EQ(engine.begin(program).error().code, Errc::version_mismatch);

  program.epoch = Epoch{0};
  program.staging_bytes = 201;
  EXPECT_EQ(engine.begin(program).error().message, "the program needs 201 bytes of staging > budget 200");

  program.staging_bytes = 192;
  ASSERT_TRUE(engine.begin(program));
  EXPECT_EQ(engine.begin(program).error().message, "a program is running (proposed)");
}

/// What `make` says when one part is of another shape than the rest.
std::string refusal(std::int32_t channel_ranks, std::int32_t store_layers, std::int32_t store_slots) {
  const Topology topology = uniform(2, 1, 4);
  const Placement placement = one_layer(4, {0, 1, 2, 3});
  auto ends = make_inproc_transports(channel_ranks);
  ExpertStore store(store_layers, ids<SlotId>(store_slots));
  TablePublisher publisher(*RoutingTable::compile(placement, topology, {Epoch{0}, 0}));
  const SteadyClock clock;
  const auto made =
      Engine::make(options(), std::move(ends->front()), store, publisher, topology, placement, clock);
  return made ? "" : made.error().message;
}

TEST(Engine, TakesSevenMessagesPerStepToOrFromEachMember) {
  for (std::int32_t n : {2, 3, 8, 24}) {
    std::vector<std::int32_t> before;
    for (std::int32_t slot = 0; slot < 2 * n; ++slot) before.push_back(slot);
    std::vector<std::int32_t> after = before;
    std::rotate(after.begin(), after.begin() + 2, after.end());
    Cluster cluster(uniform(n, 1, 2 * n), one_layer(2 * n, before), options());
    cluster.begin(one_layer(2 * n, after));
    ASSERT_TRUE(cluster.run_until_idle());
    std::uint64_t sent = 0;
    for (std::size_t r = 0; r < cluster.num_ranks(); ++r) {
      EXPECT_EQ(cluster.engine(r).counters().steps_committed, 1U);
      sent += cluster.engine(r).counters().control_messages;
    }
    EXPECT_EQ(sent, 7U * static_cast<std::uint64_t>(n - 1)) << n << " ranks";
  }
}

TEST(Engine, VotesNoWhereASlotDoesNotHoldWhatAMoveReadsFromIt) {
  Cluster cluster(uniform(2, 1, 4), one_layer(4, {0, 1, 2, 3}), options());
  Program program = cluster.make_program(one_layer(4, {0, 2, 1, 3}));
  for (Move& move : program.steps[0].moves) {
    if (move.source == SlotId{2}) move.source = SlotId{3};
  }
  for (std::size_t r = 0; r < cluster.num_ranks(); ++r) ASSERT_TRUE(cluster.engine(r).begin(program));
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_THAT(cluster.engine(1).health().last_failure->message,
              testing::HasSubstr("layer 0: expert 2 was in slot 3, and could not be kept"));
  EXPECT_EQ(cluster.find_difference(one_layer(4, {0, 1, 2, 3})), "");
}

TEST(Engine, RefusesPartsThatDoNotFit) {
  EXPECT_EQ(refusal(2, 1, 2), "");
  EXPECT_EQ(refusal(3, 1, 2), "channel of 3 ranks, topology of 2");
  EXPECT_EQ(refusal(2, 2, 2), "store of 2 layers, placement of 1");
  EXPECT_EQ(refusal(2, 1, 3), "rank 0: the store has slots 0+3, the topology 0+2");
}

}  // namespace
}  // namespace trimtab::test
