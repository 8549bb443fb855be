// SPDX-License-Identifier: Apache-2.0
#include "moe/slot_audit.hpp"

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

namespace trimtab::moe {
namespace {

/// Slots 2 and 3 of a rank, one layer.
class SlotAuditTest : public testing::Test {
 protected:
  SlotAuditTest() : weights_(1, ids<SlotId>(SlotId{2}, 2)), audit_(weights_.store()) { audit_.begin(); }

  void write(SlotId slot) { weights_.store().tensor_slot(LayerId{0}, 3, slot).back() ^= std::byte{1}; }

  static Step step_to(SlotId slot) {
    Step step;
    step.moves.push_back({LayerId{0}, ExpertId{0}, SlotId{0}, slot, MoveKind::transfer});
    return step;
  }

  test::GuardedWeights weights_;
  SlotAudit audit_;
};

TEST_F(SlotAuditTest, SeesNothingWhereNothingChanged) { EXPECT_EQ(audit_.count_unnamed_changes(), 0); }

TEST_F(SlotAuditTest, CountsASlotThatNoCommitNamed) {
  write(SlotId{2});
  EXPECT_EQ(audit_.count_unnamed_changes(), 1);
  audit_.on_commit(step_to(SlotId{3}), Epoch{1});
  EXPECT_EQ(audit_.count_unnamed_changes(), 1);
}

TEST_F(SlotAuditTest, AllowsWhatACommitNamed) {
  audit_.on_commit(step_to(SlotId{2}), Epoch{1});
  write(SlotId{2});
  EXPECT_EQ(audit_.count_unnamed_changes(), 0);
}

TEST_F(SlotAuditTest, ForgetsNamesButNotMovesAtTheNextBeginning) {
  audit_.on_commit(step_to(SlotId{2}), Epoch{1});
  audit_.begin();
  write(SlotId{2});
  EXPECT_EQ(audit_.count_unnamed_changes(), 1);
  EXPECT_TRUE(audit_.was_moved(LayerId{0}, SlotId{2}));
  EXPECT_FALSE(audit_.was_moved(LayerId{0}, SlotId{3}));
}

TEST_F(SlotAuditTest, IgnoresSlotsOfOtherRanks) {
  audit_.on_commit(step_to(SlotId{1}), Epoch{1});
  EXPECT_FALSE(audit_.was_moved(LayerId{0}, SlotId{2}));
}

}  // namespace
}  // namespace trimtab::moe
