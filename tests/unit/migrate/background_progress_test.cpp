// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/background_progress.hpp>
#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/inproc.hpp>

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

/// Two ranks whose engines are driven in the background alone until a test calls `advance`.
class BackgroundPair {
 public:
  explicit BackgroundPair(std::vector<Fault> faults_of_rank1 = {}) {
    auto channels = *make_inproc_transports(2);
    channels[1] = std::make_unique<FaultyTransport>(
        std::move(channels[1]), std::make_shared<FaultScript>(std::move(faults_of_rank1)));
    EngineOptions options;
    options.staging_budget_bytes = 1024;
    options.deadline = 60s;
    for (Rank rank : ids<Rank>(2)) {
      RankState& state = ranks_[rank.index()].emplace(topology_.slots_of(rank),
                                                      *RoutingTable::compile(before_, topology_, {}));
      state.weights.fill(before_);
      state.engine = make_background_engine(*Engine::make(options, std::move(channels[rank.index()]),
                                                          state.weights.store(), state.publisher, topology_,
                                                          before_, clock_));
    }
  }

  [[nodiscard]] Engine& engine(std::size_t rank) { return *ranks_[rank]->engine; }
  [[nodiscard]] std::string find_difference(std::size_t rank) {
    return ranks_[rank]->weights.find_difference(engine(rank).placement());
  }
  [[nodiscard]] const Placement& before() const { return before_; }
  void begin() {
    for (std::size_t rank : {0U, 1U}) ASSERT_TRUE(engine(rank).begin_toward({.to = after_}));
  }
  void await(std::size_t rank, StepState state) {
    while (engine(rank).health().state != state) std::this_thread::yield();
  }
  [[nodiscard]] const Placement& after() const { return after_; }

 private:
  struct RankState {
    RankState(IdRange<SlotId> slots, RoutingTable table) : weights(1, slots), publisher(std::move(table)) {}

    GuardedWeights weights;
    TablePublisher publisher;
    std::unique_ptr<Engine> engine;
  };

  SteadyClock clock_;
  Topology topology_ = uniform(2, 1, 4);
  Placement before_ = one_layer(4, {0, 1, 2, 3});
  Placement after_ = one_layer(4, {2, 3, 0, 1});
  std::array<std::optional<RankState>, 2> ranks_;
};

TEST(BackgroundProgress, StagesVotesAndDecidesWithoutACall) {
  BackgroundPair pair;
  pair.begin();
  for (std::size_t rank : {0U, 1U}) pair.await(rank, StepState::draining);
  for (std::size_t rank : {0U, 1U}) EXPECT_EQ(pair.engine(rank).placement(), pair.before());
}

TEST(BackgroundProgress, CommitsOnlyInsideAdvance) {
  BackgroundPair pair;
  pair.begin();
  for (std::size_t rank : {0U, 1U}) pair.await(rank, StepState::draining);
  for (std::size_t rank : {0U, 1U}) ASSERT_TRUE(pair.engine(rank).advance(Forward{100}, 0s));
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(pair.engine(rank).placement(), pair.after());
    EXPECT_EQ(pair.find_difference(rank), "");
    pair.await(rank, StepState::idle);  // Released in the background.
    EXPECT_EQ(pair.engine(rank).counters().steps_committed, 1U);
  }
}

TEST(BackgroundProgress, GivesAnErrorToTheNextCall) {
  // Its first message is its agreement to the proposal.
  BackgroundPair pair({Fault{.match = {.side = Side::send, .peer = Rank{0}, .tag = Tag{0}},
                             .action = FaultAction::fail,
                             .code = Errc::io}});
  pair.begin();
  pair.await(1, StepState::in_doubt);
  while (pair.engine(1).progress(0s)) std::this_thread::yield();
  const Result<Admission> admission = pair.engine(1).advance(Forward{1}, 0s);
  ASSERT_FALSE(admission);
  EXPECT_EQ(admission.error().code, Errc::io);
}

}  // namespace
}  // namespace trimtab::test
