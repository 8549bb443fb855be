// SPDX-License-Identifier: Apache-2.0
#include "verify/cut_transport.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/inproc.hpp>
#include <trimtab/transport/liveness.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace trimtab {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr auto alive = RankHealth::alive;
constexpr auto silent = RankHealth::silent;
constexpr auto dead = RankHealth::dead;
constexpr Clock::duration period = 100ms;

class Heartbeats : public testing::Test {
 protected:
  explicit Heartbeats(std::int32_t num_ranks = 4) {
    auto channels = make_inproc_transports(num_ranks);
    for (auto& channel : *channels) {
      const Rank rank = channel->rank();
      const auto is_cut = [this, rank](Rank peer) { return cut_ == std::set{rank, peer}; };
      auto end = std::make_unique<verify::CutTransport>(std::move(channel), is_cut);
      beats_.push_back(*Heartbeat::make({period, 3}, std::move(end), clock_));
    }
  }

  /// Everyone but `stopped` is called every quarter of a period.
  void pass(Clock::duration time, const std::set<std::size_t>& stopped = {}) {
    for (Clock::duration passed{}; passed < time; passed += period / 4) {
      clock_.advance(period / 4);
      for (std::size_t r = 0; r < beats_.size(); ++r) {
        if (!beats_[r] || stopped.contains(r)) continue;
        ASSERT_TRUE(beats_[r]->beat());
      }
    }
  }
  [[nodiscard]] std::vector<RankHealth> seen_by(std::size_t rank) const {
    std::vector<RankHealth> health;
    for (Rank other : ids<Rank>(beats_.size())) health.push_back(beats_[rank]->health_of(other));
    return health;
  }

  verify::VirtualClock clock_;
  std::set<Rank> cut_;  ///< The ends of a link that loses everything.
  std::vector<std::unique_ptr<Heartbeat>> beats_;
};

TEST_F(Heartbeats, TakeNobodyForSilentWhoIsCalled) {
  pass(50 * period);
  for (std::size_t r = 0; r < 4; ++r) EXPECT_THAT(seen_by(r), ElementsAre(alive, alive, alive, alive));
}

TEST_F(Heartbeats, FindAStoppedRankWithinThreePeriods) {
  pass(10 * period + period / 4);  // It stops as soon as it has beaten, and that is heard a call later.
  pass(3 * period, {2});
  EXPECT_THAT(seen_by(0), ElementsAre(alive, alive, silent, alive));
}

TEST_F(Heartbeats, FindTheLowestRankStoppedByAllOthersWithinThreePeriods) {
  pass(10 * period + period / 4);
  pass(3 * period, {0});
  for (std::size_t r = 1; r < 4; ++r) EXPECT_EQ(beats_[r]->health_of(Rank{0}), silent) << r;
  pass(10 * period, {0});
  for (std::size_t r = 1; r < 4; ++r) EXPECT_THAT(seen_by(r), ElementsAre(silent, alive, alive, alive)) << r;
}

TEST_F(Heartbeats, PassTheWatchOnWhenTheLowestRanksStopOneAfterAnother) {
  pass(10 * period);
  pass(8 * period, {0, 1});
  for (std::size_t r = 2; r < 4; ++r) EXPECT_THAT(seen_by(r), ElementsAre(silent, silent, alive, alive)) << r;
}

/// Who hears the lowest rank must also be heard by one that does not.
TEST_F(Heartbeats, AnswerEveryoneWhoWatches) {
  pass(10 * period);
  cut_ = {Rank{0}, Rank{1}};
  pass(20 * period);
  EXPECT_THAT(seen_by(0), ElementsAre(alive, silent, alive, alive));
  EXPECT_THAT(seen_by(1), ElementsAre(silent, alive, alive, alive));
  cut_.clear();
  pass(10 * period);
  EXPECT_THAT(seen_by(1), ElementsAre(alive, alive, alive, alive));
}

TEST_F(Heartbeats, TakeARankForAliveAgainThatIsHeardOf) {
  pass(10 * period);
  pass(5 * period, {2});
  ASSERT_EQ(beats_[0]->health_of(Rank{2}), silent);
  pass(2 * period);
  EXPECT_THAT(seen_by(0), ElementsAre(alive, alive, alive, alive));
}

TEST_F(Heartbeats, KnowADeathAtOnceAndForGood) {
  pass(10 * period);
  beats_[2].reset();
  pass(period / 4);
  for (std::size_t r : {0U, 1U, 3U}) EXPECT_EQ(beats_[r]->health_of(Rank{2}), dead) << r;
  pass(20 * period);
  for (std::size_t r : {0U, 1U, 3U}) EXPECT_EQ(beats_[r]->health_of(Rank{2}), dead) << r;
}

TEST(HeartbeatOptions, ThatCannotBeMetAreRefused) {
  const verify::VirtualClock clock;
  for (const HeartbeatOptions& options : {HeartbeatOptions{0ms, 3}, HeartbeatOptions{period, 1}}) {
    auto channels = make_inproc_transports(2);
    EXPECT_EQ(Heartbeat::make(options, std::move(channels->front()), clock).error().code,
              Errc::invalid_argument);
  }
}

TEST(BackgroundHeartbeat, FindsADeathWhileItsRankDoesSomethingElse) {
  const SteadyClock clock;
  auto channels = make_inproc_transports(2);
  const auto watching = make_background_heartbeat({5ms, 1000}, std::move(channels->front()), clock);
  auto watched = make_background_heartbeat({5ms, 1000}, std::move(channels->back()), clock);
  ASSERT_TRUE(watching && watched);
  EXPECT_EQ((*watching)->health_of(Rank{1}), alive);
  watched->reset();
  const auto until = clock.now() + 60s;
  while ((*watching)->health_of(Rank{1}) == alive && clock.now() < until) std::this_thread::yield();
  EXPECT_EQ((*watching)->health_of(Rank{1}), dead);
}

}  // namespace
}  // namespace trimtab
