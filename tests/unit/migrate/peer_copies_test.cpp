// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/peer_copy_source.hpp>
#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/inproc.hpp>

#include "unit/weights/bundle_arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr LayerId layer{1};
constexpr ExpertId expert{7};
constexpr std::byte untouched{0xee};

const std::vector<std::byte>& bundle_of(ExpertId which) {
  static std::map<ExpertId, std::vector<std::byte>> known;
  const auto [at, is_new] = known.try_emplace(which);
  if (is_new) at->second = BundleArena::bundle_of(layer, which);
  return at->second;
}

/// A millisecond passes with each look at it, in which the other ranks do something. One thread.
class TurnClock final : public Clock {
 public:
  std::function<void()> turn;

  [[nodiscard]] time_point now() const noexcept override {
    now_ += 1ms;
    if (turn) turn();
    return now_;
  }
  [[nodiscard]] duration passed() const noexcept { return now_.time_since_epoch(); }

 private:
  mutable time_point now_{};
};

class KnownLiveness final : public Liveness {
 public:
  std::map<Rank, RankHealth> health;

  [[nodiscard]] RankHealth health_of(Rank rank) const noexcept override {
    const auto at = health.find(rank);
    return at == health.end() ? RankHealth::alive : at->second;
  }
};

/// Rank 0 reads; ranks 1 and 2 keep copies of the expert, and are asked in this order.
class PeerCopies : public testing::Test {
 protected:
  static constexpr std::int32_t num_ranks = 3;

  PeerCopies() {
    for (const Rank rank : ids<Rank>(num_ranks)) copies_[rank] = std::make_shared<HostCopySource>(1 << 20);
    clock_.turn = [this] { turn(); };
  }

  void keep(Rank rank, ExpertId which) {
    ASSERT_TRUE(copies_[rank]->add(layer, which, bundle_of(which)));
    ASSERT_TRUE(plan_.add(layer, which, rank));
  }
  void make(const std::vector<Fault>& faults = {}, Rank of = Rank{1}) {
    auto channels = *make_inproc_transports(num_ranks);
    faults_ = std::make_shared<FaultScript>(faults);
    channels[of.index()] =
        std::make_unique<FaultyTransport>(std::move(channels[of.index()]), faults_, &fault_clock_);
    for (const Rank rank : ids<Rank>(num_ranks)) {
      sources_[rank] = *PeerCopySource::make(options_, std::move(channels[rank.index()]), copies_[rank],
                                             plan_, rank == Rank{0} ? &liveness_ : nullptr, clock_);
    }
  }
  void make_two_keepers(const std::vector<Fault>& faults = {}) {
    keep(Rank{1}, expert);
    keep(Rank{2}, expert);
    make(faults);
  }
  void turn() {
    ++num_turns_;
    if (on_turn_) on_turn_();
    for (const auto& [rank, source] : sources_) {
      if (rank == Rank{0} || !source || stopped_.contains(rank)) continue;
      EXPECT_TRUE(source->progress());
    }
  }
  Status read(ExpertId which = expert) {
    room_.assign(bundle_of(which).size(), untouched);
    return sources_[Rank{0}]->read(layer, which, room_);
  }
  void expect_right(ExpertId which = expert) {
    const Status done = read(which);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(room_, bundle_of(which));
  }
  void expect_failure(Errc code, const std::vector<std::string>& parts) {
    const Status done = read();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, code);
    for (const std::string& part : parts) EXPECT_THAT(done.error().message, HasSubstr(part));
  }

  PeerCopyOptions options_{.deadline = 50ms, .piece_bytes = 1000, .pieces_ahead = 3};
  TurnClock clock_;
  TurnClock fault_clock_;
  KnownLiveness liveness_;
  std::map<Rank, std::shared_ptr<HostCopySource>> copies_;
  HostCopyPlan plan_{num_ranks};
  std::shared_ptr<FaultScript> faults_;
  std::map<Rank, std::unique_ptr<PeerCopySource>> sources_;
  std::set<Rank> stopped_;
  std::function<void()> on_turn_;
  int num_turns_ = 0;
  std::vector<std::byte> room_;
};

TEST_F(PeerCopies, GiveTheBytesOfEveryExpertInPiecesOfAnySize) {
  for (const std::int32_t e : {0, 1, 2, 3, 4, 5}) keep(Rank{1 + e % 2}, ExpertId{e});
  const std::size_t size = bundle_of(ExpertId{0}).size();
  for (const std::size_t piece_bytes :
       {std::size_t{7}, std::size_t{1000}, size / 2, size - 1, size, 2 * size}) {
    for (const std::size_t ahead : {1U, 3U}) {
      options_.piece_bytes = piece_bytes;
      options_.pieces_ahead = ahead;
      make();
      for (const std::int32_t e : {0, 1, 2, 3, 4, 5}) {
        EXPECT_TRUE(sources_[Rank{0}]->holds(layer, ExpertId{e}));
        EXPECT_TRUE(sources_[Rank{0}]->is_verified(layer, ExpertId{e}));
        expect_right(ExpertId{e});
      }
      EXPECT_EQ(sources_[Rank{0}]->counters().bytes_read, 6 * size);
    }
  }
}

TEST_F(PeerCopies, AskThePlansFirstKeeperAlone) {
  make_two_keepers();
  stopped_ = {Rank{2}};
  expect_right();
  EXPECT_FALSE(*sources_[Rank{2}]->progress()) << "it was not asked";
}

TEST_F(PeerCopies, AskTheNextWhenAKeeperWasGoneBefore) {
  make_two_keepers();
  sources_[Rank{1}].reset();
  expect_right();
  EXPECT_LT(clock_.passed(), options_.deadline) << "without waiting for it";
  sources_[Rank{2}].reset();
  expect_failure(Errc::peer_lost, {"copies of peers: layer 1, expert 7: rank 1 is gone; ", "rank 2 is gone"});
  EXPECT_FALSE(sources_[Rank{0}]->holds(layer, expert));
}

TEST_F(PeerCopies, AskTheNextWhenAKeeperDiesMeanwhile) {
  make_two_keepers();
  on_turn_ = [this] {
    if (num_turns_ == 3) sources_[Rank{1}].reset();
  };
  expect_right();
  EXPECT_GT(num_turns_, 3);
  EXPECT_LT(clock_.passed(), options_.deadline);
}

TEST_F(PeerCopies, AskTheNextWhenAKeeperDoesNotAnswer) {
  make_two_keepers();
  stopped_ = {Rank{1}};
  expect_right();
  EXPECT_GT(clock_.passed(), options_.deadline);
  EXPECT_LT(clock_.passed(), 2 * options_.deadline);
}

TEST_F(PeerCopies, FailByTheDeadlineWhenNobodyAnswers) {
  make_two_keepers();
  stopped_ = {Rank{1}, Rank{2}};
  expect_failure(Errc::timeout,
                 {"layer 1, expert 7: rank 1: nothing came for 50 ms, 0 bytes before", "rank 2"});
  EXPECT_LT(clock_.passed(), 3 * options_.deadline);
}

TEST_F(PeerCopies, FailByTheDeadlineWhenAnAnswerStops) {
  keep(Rank{1}, expert);
  make();
  on_turn_ = [this] {
    if (num_turns_ == 3) stopped_ = {Rank{1}};
  };
  expect_failure(Errc::timeout, {"rank 1: nothing came for 50 ms, 3000 bytes before"});
}

TEST_F(PeerCopies, WaitADeadlineForEachPieceAndNotForTheBundle) {
  keep(Rank{1}, expert);
  make();
  on_turn_ = [this] {
    stopped_.clear();
    if (num_turns_ % 40 != 0) stopped_ = {Rank{1}};
  };
  expect_right();
  EXPECT_GT(clock_.passed(), 3 * options_.deadline);
}

TEST_F(PeerCopies, PassOverWhoIsSilent) {
  make_two_keepers();
  stopped_ = {Rank{1}};
  liveness_.health[Rank{1}] = RankHealth::silent;
  expect_right();
  EXPECT_LT(clock_.passed(), options_.deadline);
  EXPECT_FALSE(*sources_[Rank{1}]->progress()) << "it was not asked";
  liveness_.health[Rank{2}] = RankHealth::silent;
  expect_failure(Errc::unavailable, {"rank 1 is silent; ", "rank 2 is silent"});
  EXPECT_TRUE(sources_[Rank{0}]->holds(layer, expert)) << "they may be back";
  liveness_.health = {{Rank{1}, RankHealth::dead}, {Rank{2}, RankHealth::dead}};
  EXPECT_FALSE(sources_[Rank{0}]->holds(layer, expert));
}

TEST_F(PeerCopies, WaitNoLongerForWhoIsFoundSilent) {
  make_two_keepers();
  stopped_ = {Rank{1}};
  on_turn_ = [this] {
    if (num_turns_ == 5) liveness_.health[Rank{1}] = RankHealth::silent;
  };
  expect_right();
  EXPECT_LT(clock_.passed(), options_.deadline);
}

TEST_F(PeerCopies, RefuseBytesThatChangedOnTheWay) {
  const Fault damage{
      .match = {.side = Side::send, .tag = Tag{1}}, .action = FaultAction::corrupt, .occurrence = 4};
  make_two_keepers({damage});
  expect_right();
  EXPECT_EQ(faults_->num_struck(), 1U);
}

TEST_F(PeerCopies, RefuseBytesThatChangedWhereTheyWereKept) {
  keep(Rank{1}, expert);
  make();
  const auto held = copies_[Rank{1}]->bundle(layer, expert);
  const_cast<std::byte&>(held.back()) ^= std::byte{1};
  expect_failure(Errc::corrupt, {"layer 1, expert 7: rank 1: the bytes have checksum"});
}

TEST_F(PeerCopies, DoWithoutARankWhoseMessagesAreLostDamagedOrLate) {
  keep(Rank{1}, expert);
  keep(Rank{2}, expert);
  for (const FaultAction action : {FaultAction::drop, FaultAction::corrupt, FaultAction::delay}) {
    make({Fault{.match = {.side = Side::send, .tag = Tag{1}}, .action = action, .occurrence = 2}});
    expect_right();
    EXPECT_EQ(faults_->num_struck(), 1U) << "an answer";
    make({Fault{.match = {.side = Side::send, .tag = Tag{0}}, .action = action, .occurrence = 2}}, Rank{0});
    expect_right();
    EXPECT_EQ(faults_->num_struck(), 1U) << "a request";
  }
}

TEST_F(PeerCopies, TakeAPieceOnceThatComesTwice) {
  keep(Rank{1}, expert);
  make({Fault{
      .match = {.side = Side::send, .tag = Tag{1}}, .action = FaultAction::duplicate, .occurrence = 2}});
  expect_right();
  EXPECT_EQ(faults_->num_struck(), 1U);
}

TEST_F(PeerCopies, SayThatNobodyKeepsAnExpert) {
  make_two_keepers();
  EXPECT_FALSE(sources_[Rank{0}]->holds(layer, ExpertId{8}));
  EXPECT_EQ(read(ExpertId{8}).error().code, Errc::not_found);
  EXPECT_THAT(read(ExpertId{8}).error().message,
              HasSubstr("copies of peers: layer 1, expert 8: no other rank keeps one"));
}

TEST_F(PeerCopies, AreNotThoseOfTheRankItself) {
  keep(Rank{0}, expert);
  make();
  EXPECT_FALSE(sources_[Rank{0}]->holds(layer, expert));
  expect_failure(Errc::not_found, {"no other rank keeps one"});
}

TEST_F(PeerCopies, AskTheNextWhenAKeeperLacksItsCopy) {
  make_two_keepers();
  copies_[Rank{1}]->remove(layer, expert);
  expect_right();
  EXPECT_LT(clock_.passed(), options_.deadline);
  copies_[Rank{2}]->remove(layer, expert);
  expect_failure(Errc::not_found, {"rank 1 has no copy; ", "rank 2 has no copy"});
}

TEST_F(PeerCopies, GiveABundleOfAnotherSizeToNobody) {
  make_two_keepers();
  for (const std::size_t size :
       {std::size_t{0}, bundle_of(expert).size() - 1, bundle_of(expert).size() + 1}) {
    room_.assign(size, untouched);
    EXPECT_EQ(sources_[Rank{0}]->read(layer, expert, room_).error().code, Errc::invalid_argument) << size;
  }
}

TEST_F(PeerCopies, LeaveMemoryAloneThatWasGivenBack) {
  keep(Rank{1}, expert);
  make();
  stopped_ = {Rank{1}};
  EXPECT_FALSE(read());
  const std::vector<std::byte> before(room_.size(), untouched);
  EXPECT_EQ(room_, before);
  EXPECT_TRUE(*sources_[Rank{1}]->progress()) << "now it answers";
  EXPECT_TRUE(sources_[Rank{0}]->progress()) << "which arrives";
  EXPECT_EQ(room_, before);
}

TEST_F(PeerCopies, TakeNoAnswerToAnEarlierRead) {
  keep(Rank{1}, expert);
  keep(Rank{1}, ExpertId{8});
  make();
  stopped_ = {Rank{1}};
  EXPECT_FALSE(read());
  stopped_.clear();
  expect_right(ExpertId{8});  // The pieces of the other expert come before its own.
}

TEST_F(PeerCopies, StandBetweenOwnCopiesAndACheckpoint) {
  keep(Rank{1}, expert);
  keep(Rank{2}, ExpertId{9});
  ASSERT_TRUE(copies_[Rank{0}]->add(layer, ExpertId{8}, bundle_of(ExpertId{8})));
  make();
  auto checkpoint = std::make_shared<HostCopySource>(1 << 20);
  for (const std::int32_t e : {7, 8, 9})
    ASSERT_TRUE(checkpoint->add(layer, ExpertId{e}, bundle_of(ExpertId{e})));
  const std::shared_ptr<PeerCopySource> peers = std::move(sources_[Rank{0}]);
  SourceChain chain({copies_[Rank{0}], peers, checkpoint});
  stopped_ = {Rank{2}};
  for (const std::int32_t e : {7, 8, 9}) {
    room_.assign(bundle_of(ExpertId{e}).size(), untouched);
    ASSERT_TRUE(chain.read(layer, ExpertId{e}, room_));
    EXPECT_EQ(room_, bundle_of(ExpertId{e}));
  }
  EXPECT_EQ(copies_[Rank{0}]->counters().bundles_read, 1U);
  EXPECT_EQ(peers->counters().bundles_read, 1U);
  EXPECT_EQ(checkpoint->counters().bundles_read, 1U);
  EXPECT_EQ(chain.describe(),
            "1 host copies (13396 of 1048576 bytes), then host copies of 2 peers, then 3 host copies (40188 "
            "of 1048576 bytes)");
}

TEST_F(PeerCopies, AreReplacedWithTheirPlan) {
  make_two_keepers();
  auto others = std::make_shared<HostCopySource>(1 << 20);
  ASSERT_TRUE(others->add(layer, ExpertId{8}, bundle_of(ExpertId{8})));
  HostCopyPlan plan(num_ranks);
  ASSERT_TRUE(plan.add(layer, ExpertId{8}, Rank{2}));
  ASSERT_TRUE(sources_[Rank{0}]->replace(nullptr, plan));
  ASSERT_TRUE(sources_[Rank{2}]->replace(others, plan));
  expect_right(ExpertId{8});
  EXPECT_FALSE(sources_[Rank{0}]->holds(layer, expert));
  EXPECT_THAT(sources_[Rank{0}]->replace(nullptr, HostCopyPlan(2)).error().message,
              HasSubstr("a plan for 2 ranks, but there are 3"));
  expect_right(ExpertId{8});
}

TEST_F(PeerCopies, RefuseOptionsThatCannotBeMet) {
  for (const PeerCopyOptions& options : {PeerCopyOptions{.deadline = 0ns}, PeerCopyOptions{.piece_bytes = 0},
                                         PeerCopyOptions{.pieces_ahead = 0}}) {
    auto channels = *make_inproc_transports(num_ranks);
    const auto made = PeerCopySource::make(options, std::move(channels[0]), nullptr, plan_, nullptr, clock_);
    EXPECT_EQ(made.error().code, Errc::invalid_argument);
  }
  auto channels = *make_inproc_transports(num_ranks);
  const auto made =
      PeerCopySource::make(options_, std::move(channels[0]), nullptr, HostCopyPlan(4), nullptr, clock_);
  EXPECT_THAT(made.error().message, HasSubstr("a plan for 4 ranks, but there are 3"));
}

/// Four ranks that keep one expert each, and answer in the background.
class BackgroundPeerCopies : public testing::Test {
 protected:
  static constexpr std::int32_t num_ranks = 4;

  BackgroundPeerCopies() {
    HostCopyPlan plan(num_ranks);
    for (const Rank rank : ids<Rank>(num_ranks)) EXPECT_TRUE(plan.add(layer, expert_of(rank), rank));
    auto channels = *make_inproc_transports(num_ranks);
    for (const Rank rank : ids<Rank>(num_ranks)) {
      auto copies = std::make_shared<HostCopySource>(1 << 20);
      EXPECT_TRUE(copies->add(layer, expert_of(rank), BundleArena::bundle_of(layer, expert_of(rank))));
      sources_.push_back(*make_background_peer_copies(
          {.deadline = 60s, .piece_bytes = 1000, .pieces_ahead = 2}, std::move(channels[rank.index()]),
          std::move(copies), plan, nullptr, clock_));
    }
  }
  static ExpertId expert_of(Rank rank) { return ExpertId{10 + rank.value()}; }
  /// Reads the other ranks' experts on `rank`, and says how many were right.
  int read_all(Rank rank) {
    int num_right = 0;
    for (const Rank keeper : ids<Rank>(num_ranks)) {
      if (keeper == rank) continue;
      const auto expected = BundleArena::bundle_of(layer, expert_of(keeper));
      std::vector<std::byte> room(expected.size());
      if (sources_[rank.index()]->read(layer, expert_of(keeper), room) && room == expected) ++num_right;
    }
    return num_right;
  }

  SteadyClock clock_;
  std::vector<std::unique_ptr<PeerCopySource>> sources_;
};

TEST_F(BackgroundPeerCopies, AreGivenWhileTheirRankDoesSomethingElse) { EXPECT_EQ(read_all(Rank{0}), 3); }

TEST_F(BackgroundPeerCopies, AreReadByAllRanksFromEachOtherAtOnce) {
  std::vector<int> num_right(num_ranks);
  {
    std::vector<std::jthread> readers;
    for (const Rank rank : ids<Rank>(num_ranks))
      readers.emplace_back([this, rank, &right = num_right[rank.index()]] { right = read_all(rank); });
  }
  EXPECT_EQ(num_right, std::vector<int>(num_ranks, 3));
}

TEST_F(BackgroundPeerCopies, AreReadBySeveralThreadsOfARankInTurns) {
  std::vector<int> num_right(3);
  {
    std::vector<std::jthread> readers;
    for (int& right : num_right) readers.emplace_back([this, &right] { right = read_all(Rank{0}); });
  }
  EXPECT_EQ(num_right, std::vector<int>(3, 3));
  EXPECT_EQ(sources_[0]->counters().bundles_read, 9U);
}

TEST_F(BackgroundPeerCopies, OfARankThatEndsAreGone) {
  sources_[2].reset();
  EXPECT_EQ(read_all(Rank{0}), 2);
  std::vector<std::byte> room(BundleArena::bundle_of(layer, expert_of(Rank{2})).size());
  EXPECT_EQ(sources_[0]->read(layer, expert_of(Rank{2}), room).error().code, Errc::peer_lost);
}

}  // namespace
}  // namespace trimtab::test
