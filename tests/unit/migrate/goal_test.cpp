// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/inproc.hpp>

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t bundle_bytes = 192;

/// Moves on by one tick at every look, so that whatever is measured takes one tick.
class TickingClock final : public Clock {
 public:
  explicit TickingClock(duration tick) : tick_(tick) {}
  [[nodiscard]] time_point now() const noexcept override { return now_ += tick_; }

 private:
  duration tick_;
  mutable time_point now_{};
};

/// Two ranks that measure time each by its own clock, driven by one thread.
class TwoClocks {
 public:
  static constexpr std::size_t staging_bytes = std::size_t{64} << 10;
  static constexpr std::size_t measured_bytes = staging_bytes / 2;  ///< In one tick.

  TwoClocks(Clock::duration first_tick, Clock::duration second_tick)
      : clocks_{TickingClock(first_tick), TickingClock(second_tick)} {
    auto channels = *make_inproc_transports(2);
    EngineOptions options;
    options.staging_budget_bytes = staging_bytes;
    for (Rank rank : ids<Rank>(2)) {
      RankState& state = ranks_[rank.index()].emplace(topology_.slots_of(rank),
                                                      *RoutingTable::compile(before_, topology_, {}));
      state.weights.fill(before_);
      state.engine = *Engine::make(options, std::move(channels[rank.index()]), state.weights.store(),
                                   state.publisher, topology_, before_, clocks_[rank.index()]);
    }
  }

  [[nodiscard]] Engine& engine(std::size_t rank) { return *ranks_[rank]->engine; }
  [[nodiscard]] const Placement& before() const { return before_; }
  /// Every slot of the other rank's.
  [[nodiscard]] const Placement& after() const { return after_; }

  void begin(std::optional<Clock::duration> stall_budget) {
    for (std::size_t rank : {0U, 1U}) {
      const Result<bool> begun = engine(rank).begin_toward({.to = after_, .stall_budget = stall_budget});
      ASSERT_TRUE(begun) << begun.error().message;
      ASSERT_TRUE(*begun);
    }
  }
  void settle() {
    for (int i = 0; i < 1000 && !(engine(0).is_idle() && engine(1).is_idle()); ++i, next_ = next_.next()) {
      for (std::size_t rank : {0U, 1U}) ASSERT_TRUE(engine(rank).advance(next_, 1h));
    }
    for (auto& rank : ranks_) {
      ASSERT_TRUE(rank->engine->is_idle());
      ASSERT_EQ(rank->weights.find_difference(after_), "");
    }
  }

 private:
  struct RankState {
    RankState(IdRange<SlotId> slots, RoutingTable table) : weights(1, slots), publisher(std::move(table)) {}

    GuardedWeights weights;
    TablePublisher publisher;
    std::unique_ptr<Engine> engine;
  };

  Topology topology_ = uniform(2, 1, 8);
  Placement before_ = one_layer(8, {0, 1, 2, 3, 4, 5, 6, 7});
  Placement after_ = one_layer(8, {4, 5, 6, 7, 0, 1, 2, 3});
  std::array<TickingClock, 2> clocks_;
  std::array<std::optional<RankState>, 2> ranks_;
  Forward next_;
};

/// Time in which `bundles` are exchanged at the rate that a clock of `tick` measures.
Clock::duration time_for(std::size_t bundles, Clock::duration tick) {
  return tick * static_cast<std::int64_t>(bundles * bundle_bytes) /
             static_cast<std::int64_t>(TwoClocks::measured_bytes) +
         1ns;
}

TEST(EngineGoal, IsReachedInOneStepWithoutAStallBudget) {
  TwoClocks ranks(1us, 1us);
  ranks.begin(std::nullopt);
  ranks.settle();
  EXPECT_EQ(ranks.engine(0).counters().steps_committed, 1U);
}

TEST(EngineGoal,
     IsCutByTheRateThatTheCoordinatorMeasured) {   // sgl-project/sglang#21004, vllm-project/vllm#20805
  const Clock::duration stall = time_for(4, 1ms);  // The other rank, four times slower, would cut finer.
  TwoClocks ranks(1ms, 4ms);
  ranks.begin(stall);
  ranks.settle();
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(ranks.engine(rank).counters().steps_committed, 1U);
    EXPECT_EQ(ranks.engine(rank).counters().steps_rolled_back, 0U);
  }
}

TEST(EngineGoal, IsCutFinelyWhenTheCoordinatorIsTheSlowRank) {
  TwoClocks ranks(4ms, 1ms);
  ranks.begin(time_for(4, 1ms));
  ranks.settle();
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(ranks.engine(rank).counters().steps_committed, 4U);
    EXPECT_EQ(ranks.engine(rank).counters().steps_rolled_back, 0U);
  }
}

TEST(EngineGoal, ThatChangesNothingIsNotBegun) {
  TwoClocks ranks(1us, 1us);
  const Result<bool> begun = ranks.engine(0).begin_toward({.to = ranks.before(), .stall_budget = 1ms});
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_FALSE(*begun);
  EXPECT_TRUE(ranks.engine(0).is_idle());
}

TEST(EngineGoal, RefusesAStallBudgetThatMeansNothing) {
  TwoClocks ranks(0us, 1us);
  const Result<bool> still = ranks.engine(0).begin_toward({.to = ranks.after(), .stall_budget = 1ms});
  ASSERT_FALSE(still);
  EXPECT_EQ(still.error().code, Errc::unavailable);
  EXPECT_EQ(still.error().message, "no copy rate is known: the clock stands still");
  const Result<bool> negative = ranks.engine(1).begin_toward({.to = ranks.after(), .stall_budget = -1ms});
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().message, "a stall of -1000000 ns is negative");
  EXPECT_TRUE(ranks.engine(0).is_idle());
  EXPECT_TRUE(ranks.engine(1).is_idle());
}

TEST(EngineGoal, OfOneRankDoesNotMeetAProgramOfAnother) {
  TwoClocks ranks(1us, 1us);
  ASSERT_TRUE(ranks.engine(0).begin_toward({.to = ranks.after()}));
  const Placement other = one_layer(8, {5, 4, 6, 7, 0, 1, 2, 3});
  ASSERT_TRUE(ranks.engine(1).begin_toward({.to = other}));
  for (std::uint64_t f = 0; f < 20; ++f) {
    for (std::size_t rank : {0U, 1U}) ASSERT_TRUE(ranks.engine(rank).advance(Forward{f}, 1h));
  }
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(ranks.engine(rank).counters().steps_rolled_back, 1U);
    EXPECT_EQ(ranks.engine(rank).placement(), ranks.before());
  }
}

}  // namespace
}  // namespace trimtab::test
