// SPDX-License-Identifier: Apache-2.0
#include "moe/slot_audit.hpp"

#include "moe/expert_memory.hpp"

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

/// Slots 0 and 1 of a rank, one layer in fractal NZ. w13 is 4 rows of 5 bytes: most of its block is padding.
class NzSlotAuditTest : public testing::Test {
 protected:
  static constexpr ModelConfig config{
      .num_layers = 1, .num_experts = 2, .top_k = 1, .hidden = 5, .intermediate = 2};

  NzSlotAuditTest() : memory_(config, ids<SlotId>(2), WeightLayout::nz), store_(1, ids<SlotId>(2)) {}

  void SetUp() override {
    ASSERT_TRUE(memory_.load(*Placement::identity(1, 2, 2)).has_value());
    ASSERT_TRUE(memory_.register_in(store_).has_value());
  }

  ExpertMemory memory_;
  ExpertStore store_;
};

TEST_F(NzSlotAuditTest, SeesPaddingThatChanged) {
  SlotAudit audit(store_);
  audit.begin();
  EXPECT_EQ(audit.count_unnamed_changes(), 0);
  const TensorSpec& w13 = store_.tensors(LayerId{0}).front();
  w13.base[2 * w13.stride_bytes - 1] = std::byte{1};  // Of slot 1, where no row lies.
  EXPECT_EQ(audit.count_unnamed_changes(), 1);
}

TEST_F(NzSlotAuditTest, LooksWhileTheWorkspacesAreInUse) {
  SlotAudit audit(store_);
  store_.begin_layer(LayerId{0});
  audit.begin();
  std::vector<std::byte> bundle(store_.bundle_bytes(LayerId{0}), std::byte{3});
  store_.exchange_bundle(LayerId{0}, SlotId{0}, bundle);
  EXPECT_EQ(audit.count_unnamed_changes(), 1);  // The vectors: dense, written at once.
  store_.exchange_bundle(LayerId{0}, SlotId{0}, bundle);
  EXPECT_EQ(audit.count_unnamed_changes(), 0);
  store_.end_layer(LayerId{0});  // Writes the slot back, as it was.
  EXPECT_EQ(audit.count_unnamed_changes(), 0);
}

}  // namespace
}  // namespace trimtab::moe
