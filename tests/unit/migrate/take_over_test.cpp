// SPDX-License-Identifier: Apache-2.0
#include "migrate/take_over.hpp"

#include "verify/random.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

namespace trimtab {
namespace {

using namespace std::chrono_literals;
using verify::Random;

constexpr Clock::duration deadline = 800ms;
constexpr Clock::duration tick = 25ms;

/// What one rank believes of the others; wrong beliefs are allowed.
class Belief final : public Liveness {
 public:
  explicit Belief(std::size_t num_ranks) : health(num_ranks, RankHealth::alive) {}
  [[nodiscard]] RankHealth health_of(Rank rank) const noexcept override { return health[rank.index()]; }
  std::vector<RankHealth> health;
};

/// Loses a share of what is sent, as long as it is told to, and all that is sent to ranks that are deaf.
class Lossy final : public TransportDecorator {
 public:
  Lossy(std::unique_ptr<Transport> inner, Random& random, const std::size_t& loss, const RankSet& deaf)
      : TransportDecorator(std::move(inner)), random_(random), loss_(loss), deaf_(deaf) {}

  Result<Ticket> post(std::span<const Leg> legs) override {
    const bool is_send = legs.front().side == Side::send;
    const bool is_lost = random_.below(10) < loss_ || deaf_.contains(legs.front().peer);
    return inner().post(is_send && is_lost ? std::span<const Leg>{} : legs);
  }

 private:
  Random& random_;
  const std::size_t& loss_;
  const RankSet& deaf_;
};

/// Ranks of one view, each with its own part in ending it, in any order and with any suspicion.
class Synod {
 public:
  Synod(std::int32_t num_ranks, std::uint64_t seed) : random_(seed) {
    auto channels = *make_inproc_transports(num_ranks);
    RankSet members;
    for (Rank rank : ids<Rank>(num_ranks)) members.insert(rank);
    for (auto& channel : channels) {
      channels_.push_back(std::make_unique<Lossy>(std::move(channel), random_, loss, deaf));
      beliefs.push_back(std::make_unique<Belief>(channels.size()));
      parts.push_back(
          std::make_unique<TakeOver>(*channels_.back(), *beliefs.back(), clock_, deadline, members));
      EXPECT_TRUE(parts.back()->start());
      standings.emplace_back();
      has_left.push_back(false);
    }
  }
  ~Synod() {
    for (const auto& channel : channels_) channel->close();
  }
  Synod(const Synod&) = delete;
  Synod& operator=(const Synod&) = delete;

  /// `num_ticks` times: some of the ranks, in any order.
  void pass(int num_ticks) {
    for (int i = 0; i < num_ticks; ++i) {
      clock_.advance(tick);
      for (std::size_t n = 0; n < parts.size(); ++n) progress(random_.below(parts.size()));
    }
  }
  void progress(std::size_t rank) {
    if (!has_left[rank] && !parts[rank]->progress(standings[rank])) has_left[rank] = true;
  }
  /// Nobody who knows the end knows another one.
  void expect_one_end() {
    for (const auto& part : parts) {
      if (!part->chosen()) continue;
      if (!end_) end_ = part->chosen();
      EXPECT_TRUE(*part->chosen() == *end_);
    }
  }
  [[nodiscard]] const std::optional<ViewEnd>& end() const { return end_; }
  [[nodiscard]] Random& random() { return random_; }

  std::size_t loss = 0;  ///< Tenths of all messages.
  RankSet deaf;
  std::vector<std::unique_ptr<Belief>> beliefs;
  std::vector<std::unique_ptr<TakeOver>> parts;
  std::vector<Standing> standings;
  std::vector<bool> has_left;

 private:
  Random random_;
  verify::VirtualClock clock_;
  std::vector<std::unique_ptr<Transport>> channels_;
  std::optional<ViewEnd> end_;
};

TEST(TakeOver, DoesNothingWithoutCause) {
  Synod synod(3, 1);
  synod.pass(200);
  synod.expect_one_end();
  EXPECT_FALSE(synod.end());
}

TEST(TakeOver, EndsTheViewByTheLowestThatIsAwakeWithThoseThatAnswer) {
  Synod synod(4, 1);
  for (const auto& belief : synod.beliefs) belief->health[0] = RankHealth::dead;
  synod.has_left[0] = true;
  synod.standings[1].finished = Forward{7};
  synod.standings[2].finished = Forward{5};
  synod.standings[3].finished = Forward{6};
  synod.pass(10);
  synod.expect_one_end();
  ASSERT_TRUE(synod.end());
  EXPECT_EQ(synod.end()->members.ranks(), (std::vector{Rank{1}, Rank{2}, Rank{3}}));
  EXPECT_EQ(synod.end()->resume, 5U);
  EXPECT_EQ(synod.end()->attempt, 0U);
}

TEST(TakeOver, CommitsWhatAnyRankHasCommitted) {
  Synod synod(3, 1);
  for (const auto& belief : synod.beliefs) belief->health[0] = RankHealth::dead;
  synod.has_left[0] = true;
  synod.standings[2].committed_attempt = 9;
  synod.pass(10);
  synod.expect_one_end();
  ASSERT_TRUE(synod.end());
  EXPECT_EQ(synod.end()->attempt, 9U);
}

TEST(TakeOver, GivesUpInAMinority) {
  Synod synod(3, 1);
  synod.has_left[1] = synod.has_left[2] = true;
  synod.beliefs[0]->health[1] = synod.beliefs[0]->health[2] = RankHealth::silent;
  synod.pass(400);
  EXPECT_TRUE(synod.has_left[0]);
  EXPECT_FALSE(synod.parts[0]->chosen());
}

TEST(TakeOver, TellsWhoIsBehindHowItsViewEnded) {
  Synod synod(3, 1);
  synod.has_left[0] = true;
  for (const auto& belief : synod.beliefs) belief->health[0] = RankHealth::silent;
  synod.pass(10);
  for (std::size_t r : {1U, 2U}) {
    ASSERT_TRUE(synod.parts[r]->chosen());
    synod.parts[r]->enter_next();
  }
  synod.has_left[0] = false;
  synod.standings[0].is_step_overdue = true;
  synod.pass(40);
  ASSERT_TRUE(synod.parts[0]->chosen());
  EXPECT_FALSE(synod.parts[0]->chosen()->members.contains(Rank{0}));
}

TEST(TakeOver, IsAskedAgainByWhoPromisedAndHeardNoMore) {
  Synod synod(4, 1);
  synod.standings[0].is_step_overdue = true;
  for (std::size_t rank : {0U, 1U, 2U, 3U, 0U}) synod.progress(rank);
  synod.deaf.insert(Rank{3});
  synod.pass(8);
  for (std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_TRUE(synod.parts[rank]->chosen());
    synod.parts[rank]->enter_next();
    synod.standings[rank] = {};
  }
  EXPECT_FALSE(synod.parts[3]->chosen());
  synod.deaf = {};
  synod.pass(8);
  ASSERT_TRUE(synod.parts[3]->chosen());
  EXPECT_TRUE(synod.parts[3]->chosen()->members.contains(Rank{3}));
}

TEST(TakeOver, LeavesOutOneEndOfACutLinkAMomentAfterItWasSeen) {
  Synod synod(4, 1);
  for (std::size_t r : {1U, 2U}) {
    synod.standings[r].unheard.forward = 5;
    synod.standings[r].unheard.peers.insert(Rank{r == 1 ? 2 : 1});
  }
  synod.standings[0].unheard.forward = 6;
  synod.standings[0].unheard.peers.insert(Rank{1});
  synod.pass(12);
  EXPECT_FALSE(synod.parts[0]->is_under_way());
  synod.pass(60);
  synod.expect_one_end();
  ASSERT_TRUE(synod.end());
  EXPECT_EQ(synod.end()->members.ranks(), (std::vector{Rank{0}, Rank{1}, Rank{3}}));
}

/// Takers rival each other on wrong suspicions while messages are lost; then all calms down.
TEST(TakeOver, HasOneEndHoweverManyTakersRival) {
  int num_ended = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 4);
    Synod synod(num_ranks, seed);
    synod.loss = seed % 5;
    const std::uint64_t attempt = seed % 3 == 0 ? 4 : 0;
    for (Standing& standing : synod.standings) {
      standing.finished = Forward{synod.random().below(3)};
      standing.committed_attempt = synod.random().one_in(2) ? attempt : 0;
    }
    for (int round = 0; round < 12; ++round) {
      for (const auto& belief : synod.beliefs) {
        for (RankHealth& health : belief->health)
          health = synod.random().one_in(3) ? RankHealth::silent : RankHealth::alive;
      }
      synod.pass(6);
      synod.expect_one_end();
    }
    for (const auto& belief : synod.beliefs) std::ranges::fill(belief->health, RankHealth::alive);
    synod.loss = 0;
    for (Standing& standing : synod.standings) standing.is_step_overdue = true;
    synod.pass(300);
    synod.expect_one_end();
    if (HasFailure()) FAIL() << "seed " << seed;
    if (synod.end()) ++num_ended;
  }
  EXPECT_GT(num_ended, 380);
}

}  // namespace
}  // namespace trimtab
