// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/peer_copy_source.hpp>
#include <trimtab/transport/ucx.hpp>

#include "conformance/forked_ranks.hpp"
#include "unit/weights/bundle_arena.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <vector>

// Keepers that are processes of their own: killed, and stopped.

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr LayerId layer{1};
constexpr ExpertId kept_once{7};   ///< By rank 1.
constexpr ExpertId kept_twice{8};  ///< By rank 1, then rank 2.

/// A rank's copies over a channel of its own, answered in the background.
class Copies {
 public:
  Copies(const Bootstrap& bootstrap, Clock::duration deadline) : session_(*UcxSession::start(bootstrap)) {
    HostCopyPlan plan(3);
    EXPECT_TRUE(plan.add(layer, kept_once, Rank{1}));
    for (const Rank keeper : {Rank{1}, Rank{2}}) EXPECT_TRUE(plan.add(layer, kept_twice, keeper));
    auto kept = std::make_shared<HostCopySource>(1 << 20);
    for (const LayerExpert what : plan.kept_by(bootstrap.rank))
      EXPECT_TRUE(kept->add(layer, what.expert, BundleArena::bundle_of(layer, what.expert)));
    source_ = *make_background_peer_copies({.deadline = deadline, .piece_bytes = 500},
                                           *make_ucx_transport(session_), kept, plan, nullptr, clock_);
  }

  [[nodiscard]] bool holds(ExpertId expert) const { return source_->holds(layer, expert); }
  /// `ok` when it was read and is right.
  Errc read(ExpertId expert) {
    const auto expected = BundleArena::bundle_of(layer, expert);
    std::vector<std::byte> room(expected.size());
    const Status done = source_->read(layer, expert, room);
    if (!done) return done.error().code;
    return room == expected ? Errc::ok : Errc::corrupt;
  }

 private:
  SteadyClock clock_;
  UcxSession session_;
  std::unique_ptr<PeerCopySource> source_;
};

/// Ranks 1 and 2 keep copies, and rank 0 does `read`, after it has read both experts.
template <class Read>
ForkedRanks make_ranks(Clock::duration deadline, const Read& read) {
  return ForkedRanks(3, [=](const Bootstrap& bootstrap, const ParentLine& parent) {
    Copies copies(bootstrap, deadline);
    if (bootstrap.rank != Rank{0}) {
      parent.await_go();
      return 0;
    }
    EXPECT_EQ(copies.read(kept_once), Errc::ok);
    EXPECT_EQ(copies.read(kept_twice), Errc::ok);
    read(copies, parent);
    return 0;
  });
}

TEST(PeerCopiesUcx, ComeFromTheNextKeeperWhenOneIsKilledMeanwhile) {
  // The deadline is longer than the test may take: a death is known without it.
  ForkedRanks ranks = make_ranks(1h, [](Copies& copies, const ParentLine& parent) {
    parent.say_ready();
    while (copies.holds(kept_once)) ASSERT_EQ(copies.read(kept_twice), Errc::ok);
    EXPECT_EQ(copies.read(kept_once), Errc::peer_lost);
    EXPECT_EQ(copies.read(kept_twice), Errc::ok);
  });
  ranks.await_ready(Rank{0});
  ranks.signal(Rank{1}, SIGKILL);
  EXPECT_EQ(ranks.result(Rank{0}), 0);
}

TEST(PeerCopiesUcx, ComeFromTheNextKeeperWhileOneIsStopped) {
  ForkedRanks ranks = make_ranks(1s, [](Copies& copies, const ParentLine& parent) {
    parent.say_ready();
    parent.await_go();
    EXPECT_EQ(copies.read(kept_once), Errc::timeout);
    EXPECT_EQ(copies.read(kept_twice), Errc::ok);
    parent.say_ready();
    // It wakes, and answers what was given up before.
    for (Errc outcome = Errc::timeout; outcome != Errc::ok; outcome = copies.read(kept_once)) {
      EXPECT_EQ(outcome, Errc::timeout);
      EXPECT_EQ(copies.read(kept_twice), Errc::ok);
    }
  });
  ranks.await_ready(Rank{0});
  ranks.signal(Rank{1}, SIGSTOP);
  ranks.go(Rank{0});
  ranks.await_ready(Rank{0});
  ranks.signal(Rank{1}, SIGCONT);
  EXPECT_EQ(ranks.result(Rank{0}), 0);
}

}  // namespace
}  // namespace trimtab::test
