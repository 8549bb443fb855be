// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/inproc.hpp>

#include "migrate/stage_run.hpp"
#include "support/placements.hpp"
#include "verify/layout_weights.hpp"
#include "verify/virtual_clock.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace trimtab::test {
namespace {

using verify::all_arrangements;
using verify::Arrangement;
using verify::LayoutWeights;
using verify::VirtualClock;

using namespace std::chrono_literals;

constexpr std::int32_t num_layers = 4;
constexpr std::int32_t num_experts = 9;
constexpr std::int32_t num_slots = 12;
constexpr Clock::duration deadline = 1s;

/// Ranks whose weights lie in various layouts, driven by one thread. What must hold at any moment is checked
/// at every tick.
class LayoutCluster {
 public:
  using ArrangementOf = std::function<Arrangement(Rank)>;

  LayoutCluster(const Placement& placement, const ArrangementOf& arrangement_of, std::size_t budget,
                const std::shared_ptr<FaultScript>& faults_of_rank0 = nullptr) {
    auto channels = *make_inproc_transports(topology_.num_ranks());
    EngineOptions options;
    options.staging_budget_bytes = budget_ = budget;
    options.deadline = deadline;
    options.verify_sample = 100;
    for (Rank rank : ids<Rank>(topology_.num_ranks())) {
      auto state = std::make_unique<RankState>(topology_.slots_of(rank), arrangement_of(rank),
                                               *RoutingTable::compile(placement, topology_, {Epoch{0}, 0}));
      state->weights.fill(placement);
      state->fingerprint = state->weights.store().fingerprint();
      std::unique_ptr<Transport> channel = std::move(channels[rank.index()]);
      if (rank == Rank{0} && faults_of_rank0) {
        channel = std::make_unique<FaultyTransport>(std::move(channel), faults_of_rank0);
      }
      state->engine = *Engine::make(options, std::move(channel), state->weights.store(), state->publisher,
                                    topology_, placement, clock_);
      ranks_.push_back(std::move(state));
    }
  }

  void begin(const Placement& to) {
    std::vector<std::size_t> bundle_bytes;
    for (LayerId layer : ids<LayerId>(num_layers)) {
      bundle_bytes.push_back(ranks_[0]->weights.store().bundle_bytes(layer));
    }
    const Engine& engine = *ranks_[0]->engine;
    const auto program =
        build_program({engine.health().epoch, engine.placement(), to, topology_, bundle_bytes, budget_});
    ASSERT_TRUE(program) << program.error().message;
    num_steps_ = program->steps.size();
    for (auto& rank : ranks_) ASSERT_TRUE(rank->engine->begin(*program));
  }

  /// Runs until all are idle, letting `per_tick` pass on the clock each time.
  void settle(Clock::duration per_tick = {}) {
    for (int tick = 0; tick < 1000 && !is_idle(); ++tick) {
      bool all_go = true;
      for (auto& rank : ranks_) {
        const Result<Admission> admission = rank->engine->advance(next_, 1ms);
        ASSERT_TRUE(admission) << admission.error().message;
        all_go = all_go && *admission == Admission::go;
      }
      check();
      if (all_go) next_ = next_.next();
      clock_.advance(per_tick);
    }
    ASSERT_TRUE(is_idle());
  }

  /// On every rank: all bytes are those of the placement in service, nothing moved or changed its format.
  void check() {
    for (auto& rank : ranks_) {
      ASSERT_EQ(rank->weights.find_difference(rank->engine->placement()), "");
      ASSERT_EQ(rank->weights.store().fingerprint(), rank->fingerprint);
    }
  }

  [[nodiscard]] bool is_idle() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->engine->is_idle(); });
  }
  [[nodiscard]] Engine& engine(std::size_t rank) { return *ranks_[rank]->engine; }
  [[nodiscard]] LayoutWeights& weights(std::size_t rank) { return ranks_[rank]->weights; }
  [[nodiscard]] std::size_t num_steps() const { return num_steps_; }

 private:
  struct RankState {
    RankState(IdRange<SlotId> slots, Arrangement arrangement, RoutingTable table)
        : weights(num_layers, slots, arrangement), publisher(std::move(table)) {}

    LayoutWeights weights;
    TablePublisher publisher;
    std::uint64_t fingerprint = 0;
    std::unique_ptr<Engine> engine;
  };

  Topology topology_ = uniform(3, 1, num_slots);
  VirtualClock clock_;
  std::size_t budget_ = 0;
  std::vector<std::unique_ptr<RankState>> ranks_;
  Forward next_;
  std::size_t num_steps_ = 0;
};

constexpr std::size_t whole_budget = 1 << 20;
/// The largest layer's share of one rank, four slots of bundles below 3 KiB: several steps in a program.
constexpr std::size_t one_layer_budget = 4 * 3072;

Placement drawn(std::uint64_t seed) { return random_placement(num_layers, num_slots, num_experts, seed); }

class EngineLayouts : public testing::TestWithParam<Arrangement> {};

TEST_P(EngineLayouts, KeepEveryByteOverRandomPrograms) {
  for (const std::size_t budget : {whole_budget, one_layer_budget}) {
    LayoutCluster cluster(
        drawn(0), [](Rank) { return GetParam(); }, budget);
    std::uint64_t committed = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      ASSERT_NO_FATAL_FAILURE(cluster.begin(drawn(seed)));
      ASSERT_NO_FATAL_FAILURE(cluster.settle());
      committed += cluster.num_steps();
      ASSERT_EQ(cluster.engine(0).placement(), drawn(seed));
    }
    EXPECT_EQ(cluster.engine(0).counters().steps_committed, committed);
    EXPECT_EQ(committed > 8, budget == one_layer_budget);
  }
}

// A rollback that left a byte behind would show in the check of the next tick.
TEST_P(EngineLayouts, KeepEveryByteWhenAPayloadIsCorrupted) {
  for (std::uint64_t occurrence = 0; occurrence < 6; ++occurrence) {
    const Fault fault{.match = {.side = Side::send, .size_bytes = 1000},  // A matrix of layers 0 and 3.
                      .action = FaultAction::corrupt,
                      .occurrence = occurrence};
    auto script = std::make_shared<FaultScript>(std::vector{fault});
    LayoutCluster cluster(
        drawn(0), [](Rank) { return GetParam(); }, whole_budget, script);
    std::uint64_t seed = 1;
    for (; script->num_struck() == 0; ++seed) {
      ASSERT_NO_FATAL_FAILURE(cluster.begin(drawn(seed)));
      ASSERT_NO_FATAL_FAILURE(cluster.settle(deadline / 10));
    }
    EXPECT_EQ(cluster.engine(0).counters().steps_rolled_back, 1U);
    ASSERT_NO_FATAL_FAILURE(cluster.begin(drawn(seed)));  // The workspaces are free again.
    ASSERT_NO_FATAL_FAILURE(cluster.settle(deadline / 10));
    EXPECT_EQ(cluster.engine(0).placement(), drawn(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineLayouts, testing::ValuesIn(all_arrangements));

TEST(EngineOverLayouts, MayDifferFromRankToRank) {
  LayoutCluster cluster(
      drawn(0), [](Rank rank) { return all_arrangements[2 + rank.index()]; }, one_layer_budget);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    ASSERT_NO_FATAL_FAILURE(cluster.begin(drawn(seed)));
    ASSERT_NO_FATAL_FAILURE(cluster.settle());
    ASSERT_EQ(cluster.engine(0).placement(), drawn(seed));
  }
}

TEST(EngineOverLayouts, WriteAnNzTensorOncePerCommit) {
  LayoutCluster cluster(
      drawn(0), [](Rank) { return Arrangement::poisoning_nz; }, whole_budget);
  ASSERT_NO_FATAL_FAILURE(cluster.begin(drawn(1)));
  ASSERT_NO_FATAL_FAILURE(cluster.settle());
  EXPECT_EQ(cluster.num_steps(), 1U);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster.weights(rank).num_whole_writes(), 2 + 3 + 2 + 2);  // NZ matrices of layers 0 to 3.
  }
}

/// Without a budget, until nothing can be done.
void progress_all(StageRun& run) {
  const VirtualClock clock;
  for (bool worked = true; worked;) {
    const Result<bool> progress = run.progress(clock, clock.now());
    ASSERT_TRUE(progress) << progress.error().message;
    worked = *progress;
  }
}

// What is re-verified after a commit is what is in service, not the workspace that it was written from.
TEST(StageRunOverNz, NoticesAStorageThatLostAWrite) {
  const Topology topology = uniform(3, 1, num_slots);
  const auto channels = *make_inproc_transports(3);
  LayoutWeights weights(num_layers, topology.slots_of(Rank{0}), Arrangement::poisoning_nz);
  const Placement placement = *Placement::identity(num_layers, num_slots, num_experts);
  const Step step{{{LayerId{0}, ExpertId{0}, SlotId{0}, SlotId{1}, MoveKind::local_copy}}, {}};
  for (const bool loses : {false, true}) {
    weights.fill(placement);
    std::vector<std::byte> staging(4096);
    StageRun run({*channels[0], weights.store(), topology, Tag{7}}, step, staging);
    progress_all(run);
    ASSERT_TRUE(run.is_complete());
    weights.lose_writes(loses);
    run.exchange();
    const Status verified = run.verify_exchanged(1, 0);
    ASSERT_EQ(verified ? Errc::ok : verified.error().code, loses ? Errc::corrupt : Errc::ok);
  }
}

/// Two runs over one store, as when a cancelled one is still in quarantine.
class TwoRuns : public testing::Test {
 protected:
  TwoRuns() : weights(num_layers, topology.slots_of(Rank{0}), Arrangement::nz) {
    weights.fill(drawn(0));
    step.moves = {
        {LayerId{0}, drawn(0).expert_at(LayerId{0}, SlotId{0}), SlotId{0}, SlotId{1}, MoveKind::local_copy}};
  }

  std::unique_ptr<StageRun> make_run(std::vector<std::byte>& staging) {
    return std::make_unique<StageRun>(StageRun::Context{*channels[0], weights.store(), topology, Tag{7}},
                                      step, staging);
  }

  Topology topology = uniform(3, 1, num_slots);
  std::vector<std::unique_ptr<Transport>> channels = *make_inproc_transports(3);
  VirtualClock clock;
  LayoutWeights weights;
  Step step;
  std::vector<std::byte> first_staging = std::vector<std::byte>(4096);
  std::vector<std::byte> second_staging = std::vector<std::byte>(4096);
};

TEST_F(TwoRuns, DoNotShareWorkspaces) {
  auto first = make_run(first_staging);
  auto second = make_run(second_staging);
  progress_all(*first);
  EXPECT_TRUE(first->is_complete());
  EXPECT_FALSE(*second->progress(clock, clock.now()));
  EXPECT_FALSE(second->is_complete());
  first.reset();
  progress_all(*second);
  EXPECT_TRUE(second->is_complete());
  EXPECT_EQ(weights.find_difference(drawn(0)), "");
}

TEST_F(TwoRuns, DoNotCompleteWithoutTheWorkspacesThatACommitNeeds) {
  auto first = make_run(first_staging);
  progress_all(*first);
  step.moves[0].kind = MoveKind::transfer;  // Received: nothing is read here before the commit.
  step.moves[0].source = topology.slots_of(Rank{1}).first();
  auto second = make_run(second_staging);
  const auto store = weights.store().tensors(LayerId{0});
  const ExpertId expert = step.moves[0].expert;
  std::vector<std::byte> bundle(weights.store().bundle_bytes(LayerId{0}), std::byte{5});
  const std::uint64_t checksum = ExpertStore::checksum(LayerId{0}, bundle, expert);
  std::vector<Leg> legs;
  std::span<const std::byte> rest = bundle;
  for (const TensorSpec& tensor : store) {
    legs.push_back(send_leg(Rank{0}, Tag{7}, rest.first(tensor.slot_bytes)));
    rest = rest.subspan(tensor.slot_bytes);
  }
  legs.push_back(send_leg(Rank{0}, Tag{7}, std::as_bytes(std::span(&checksum, 1))));
  ASSERT_TRUE(channels[1]->post(legs));
  progress_all(*second);
  EXPECT_EQ(second->bytes_received(), bundle.size());
  EXPECT_FALSE(second->is_complete());
  first.reset();
  progress_all(*second);
  EXPECT_TRUE(second->is_complete());
}

}  // namespace
}  // namespace trimtab::test
