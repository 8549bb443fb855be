// SPDX-License-Identifier: Apache-2.0
#include "balanced_rank.hpp"

#include <trimtab/route/router.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace trimtab::test {
namespace {

// Identity on two ranks: slots 0 to 2 hold experts 0, 1, 2; slots 3 to 5 hold 3, 0, 1.
constexpr LayerId first{0};

/// How many of `tokens` tokens for `expert` the table in service sends to `rank`.
std::int64_t tokens_to(BalancedRank& on, Rank rank, ExpertId expert, std::size_t tokens) {
  TableReader reader = on.publisher.make_reader();
  const TableLease table = reader.acquire();
  Router router(num_layers, num_experts, Rank{0});
  const std::vector<ExpertId> experts(tokens, expert);
  std::vector<SlotId> slots(tokens);
  EXPECT_TRUE(router.dispatch(*table, first, experts, slots));
  return std::ranges::count(slots, rank, [&](SlotId slot) { return on.topology.rank_of(slot); });
}

TEST(ShareClock, ChangesSharesFromTheSumOfAllRanksCounts) {
  // Expert 0 has 80 assignments, expert 2 on rank 0 has 40: rank 0 takes 20 of expert 0.
  on_two_ranks(
      [](BalancedRank& rank, Rank id) {
        rank.count(first, SlotId{0}, id == Rank{0} ? 50 : 30);
        rank.count(first, SlotId{2}, id == Rank{0} ? 0 : 40);
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        EXPECT_EQ(rank.balancer->counters().splits_published, 1U);
        EXPECT_EQ(rank.publisher.identity(), (TableIdentity{Epoch{0}, 1}));
        EXPECT_LE(std::abs(tokens_to(rank, Rank{0}, ExpertId{0}, 80) - 20), 1);
        EXPECT_TRUE(rank.engine->is_idle());  // Nothing moved.
      },
      1);
}

TEST(ShareClock, PlansFromAllCountsSinceTheLastPlan) {
  // The second window alone would not see that expert 2 is hot.
  on_two_ranks(
      [](BalancedRank& rank, Rank) {
        rank.count(first, SlotId{2}, 1000);
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        rank.count(first, SlotId{3}, 1);
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        rank.settle();
        EXPECT_GT(rank.engine->placement().replicas(first, ExpertId{2}).size(), 1U);
      },
      1);
}

TEST(ShareClock, CommitsANewPlacementWithTheSharesOfItsCounts) {
  // Experts 0 and 2 are hot and of different weight: even shares cannot be level.
  on_two_ranks(
      [](BalancedRank& rank, Rank) {
        rank.count(first, SlotId{0}, 20);
        rank.count(first, SlotId{2}, 70);
        rank.count(first, SlotId{1}, 20);
        rank.complete_window();
        rank.settle();
        ASSERT_EQ(rank.publisher.identity(), (TableIdentity{Epoch{1}, 0}));
        std::int64_t on_first = 0;
        for (const auto& [expert, tokens] : {std::pair{0, 40}, {2, 140}, {1, 40}}) {
          on_first += tokens_to(rank, Rank{0}, ExpertId{expert}, static_cast<std::size_t>(tokens));
        }
        EXPECT_LE(std::abs(on_first - 110), 3);
      },
      1);
}

TEST(ShareClock, StartsAnewAtVersionOneAfterACommit) {
  on_two_ranks(
      [](BalancedRank& rank, Rank) {
        rank.count(first, SlotId{0}, 20);
        rank.count(first, SlotId{2}, 70);
        rank.complete_window();
        rank.settle();
        const SlotId hot = rank.engine->placement().replicas(first, ExpertId{2})[0];
        rank.count(first, hot, 10);
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        EXPECT_EQ(rank.publisher.identity(), (TableIdentity{Epoch{1}, 1}));
      },
      1);
}

TEST(ShareClock, RunsOnWhileAProgramRuns) {
  on_two_ranks(
      [](BalancedRank& rank, Rank) {
        rank.count(first, SlotId{2}, 100);
        rank.complete_window();
        ASSERT_FALSE(rank.engine->is_idle());
        const std::uint64_t before = rank.balancer->counters().splits_published;
        rank.count(first, SlotId{1}, 100);
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        EXPECT_EQ(rank.balancer->counters().splits_published, before + 1);
        rank.settle();
        EXPECT_EQ(rank.publisher.identity().epoch, Epoch{1});
      },
      1);
}

TEST(ShareClock, PublishesNothingFromAWindowThatARankRefuses) {  // R5
  on_two_ranks(
      [](BalancedRank& rank, Rank id) {
        if (id == Rank{1}) {
          const std::vector<SlotId> lost{no_slot};  // A valid token that went nowhere.
          ASSERT_TRUE(rank.recorder.record(context, Epoch{0}, first, lost, 1));
          rank.recorder.commit_forward();
        }
        rank.count(first, SlotId{0}, 100);
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        EXPECT_EQ(rank.balancer->counters().windows_refused, 1U);
        EXPECT_EQ(rank.publisher.identity(), (TableIdentity{Epoch{0}, 0}));
      },
      1);
}

TEST(ShareClock, PublishesNothingFromAnEmptyWindow) {
  on_two_ranks(
      [](BalancedRank& rank, Rank) {
        ASSERT_TRUE(rank.balancer->on_forward_completed());
        EXPECT_EQ(rank.publisher.identity(), (TableIdentity{Epoch{0}, 0}));
      },
      1);
}

}  // namespace
}  // namespace trimtab::test
