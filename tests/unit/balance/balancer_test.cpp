// SPDX-License-Identifier: Apache-2.0
#include "balanced_rank.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

TEST(Balancer, PlansFromTheSumOfAllRanksCounts) {
  // Each rank alone sees one hot expert; together experts 0 and 2 are hot, both of which have a slot on rank
  // 0.
  on_two_ranks([](BalancedRank& rank, Rank id) {
    rank.count(LayerId{0}, SlotId{id == Rank{0} ? 0 : 2}, 100);
    rank.count(LayerId{1}, SlotId{1}, 10);
    rank.complete_window();
    rank.settle();
    EXPECT_EQ(rank.balancer->counters().programs_begun, 1U);
    EXPECT_LE(imbalance(rank.engine->placement(), LayerId{0}, {100, 0, 100, 0}, rank.topology), 1.0 + 1e-9);
    EXPECT_EQ(rank.weights.find_difference(rank.engine->placement()), "");
  });
}

TEST(Balancer, DoesNothingBeforeTheIntervalIsOver) {
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{0}, 100);
    ASSERT_TRUE(rank.balancer->on_forward_completed());
    EXPECT_TRUE(rank.engine->is_idle());
    EXPECT_EQ(rank.balancer->counters().windows_planned, 0U);
  });
}

TEST(Balancer,
     KeepsALayerThatTheWindowDidNotSee) {  // vllm-project/vllm-ascend#12154: a dummy run without load
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{0}, 100);
    rank.count(LayerId{1}, SlotId{0}, 100);
    rank.complete_window();
    rank.settle();
    const Placement planned = rank.engine->placement();
    const SlotId hot = planned.replicas(LayerId{0}, ExpertId{2})[0];
    rank.count(LayerId{0}, hot, 100);  // Layer 1 is silent now.
    rank.complete_window();
    rank.settle();
    EXPECT_TRUE(std::ranges::equal(rank.engine->placement().layer(LayerId{1}), planned.layer(LayerId{1})));
  });
}

TEST(Balancer, RefusesAWindowThatOneRankCountedWrongOnEveryRank) {  // R5; alibaba/rtp-llm 0c6756cca planned
                                                                    // from dead counters
  on_two_ranks([](BalancedRank& rank, Rank id) {
    if (id == Rank{1}) {
      const std::vector<SlotId> lost{no_slot};  // A valid token that went nowhere.
      ASSERT_TRUE(rank.recorder.record(context, Epoch{0}, LayerId{0}, lost, 1));
      rank.recorder.commit_forward();
    }
    rank.count(LayerId{0}, SlotId{0}, 100);
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_refused, 1U);
    EXPECT_EQ(rank.balancer->counters().windows_planned, 0U);
    EXPECT_TRUE(rank.engine->is_idle());
    EXPECT_EQ(rank.balancer->last_problem().has_value(), id == Rank{1});
  });
}

// A table that was published before its commit: which experts the slots held is then unknown.
TEST(Balancer, RefusesAWindowOfAnEpochThatWasNeverCommitted) {
  on_two_ranks([](BalancedRank& rank, Rank id) {
    if (id == Rank{1}) {
      const std::vector<SlotId> slots(10, SlotId{2});
      ASSERT_TRUE(rank.recorder.record(context, Epoch{1}, LayerId{0}, slots, 10));
      rank.recorder.commit_forward();
    }
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_refused, 1U);
    EXPECT_EQ(rank.balancer->counters().windows_planned, 0U);
    ASSERT_EQ(rank.balancer->last_problem().has_value(), id == Rank{1});
    if (id == Rank{1}) {
      EXPECT_EQ(rank.balancer->last_problem()->message,
                "counted under epoch 1, which this rank has never committed");
    }
  });
}

TEST(Balancer, PlansNothingFromAnEmptyWindow) {
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_skipped, 1U);
    EXPECT_TRUE(rank.engine->is_idle());
  });
}

TEST(Balancer, SkipsAWindowWhileAProgramRunsOnAnyRank) {
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{2}, 100);
    rank.complete_window();
    ASSERT_FALSE(rank.engine->is_idle());
    rank.count(LayerId{0}, SlotId{1}, 100);
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_skipped, 1U);
    EXPECT_EQ(rank.balancer->counters().programs_begun, 1U);
  });
}

TEST(Balancer,
     FoldsCountsOfTwoEpochsWithTheirOwnPlacements) {  // jd-opensource/xllm folds old counts with the new map
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{0}, 100);
    rank.count(LayerId{0}, SlotId{2}, 100);
    rank.complete_window();
    rank.count(LayerId{0}, SlotId{3}, 1000);  // Expert 3 under epoch 0; the slot may hold another one soon.
    rank.settle();
    ASSERT_EQ(rank.engine->health().epoch, Epoch{1});
    rank.complete_window();
    rank.settle();
    EXPECT_LE(imbalance(rank.engine->placement(), LayerId{0}, {0, 0, 0, 2000}, rank.topology), 1.0 + 1e-9);
  });
}

}  // namespace
}  // namespace trimtab::test
