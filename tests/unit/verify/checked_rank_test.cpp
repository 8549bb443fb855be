// SPDX-License-Identifier: Apache-2.0
#include "verify/checked_rank.hpp"

#include "verify/virtual_clock.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

using testing::HasSubstr;

/// The first rank of a case whose slots are dense and which holds an expert in its first slot.
class OneRank : public testing::Test {
 protected:
  OneRank() : drawn(make_case()) {
    auto channels = *make_inproc_transports(drawn.topology.num_ranks());
    rank = *CheckedRank::make({.drawn = drawn, .rank = Rank{0}, .clock = clock}, std::move(channels[0]));
  }

  static Case make_case() {
    CaseOptions options;
    options.ranks = 2;
    options.faults.clear();
    options.layout = LayoutFamily::dense;
    for (std::uint64_t seed = 0;; ++seed) {
      Case drawn = draw_case(seed, options).value();
      if (drawn.first.expert_at(LayerId{0}, SlotId{0}) != no_expert && drawn.pace.max_in_flight > 1)
        return drawn;
    }
  }

  std::byte& first_byte() { return rank->weights().store().tensors(LayerId{0})[0].base[0]; }

  Case drawn;
  VirtualClock clock;
  std::unique_ptr<CheckedRank> rank;
};

TEST_F(OneRank, ServesForwardsUpToItsBatches) {
  std::uint64_t forward = 0;
  while (rank->num_in_flight() < drawn.pace.max_in_flight)
    EXPECT_EQ(rank->take_turn(Forward{forward++}), CheckedRank::Turn::began);
  EXPECT_EQ(rank->take_turn(Forward{forward}), CheckedRank::Turn::full);
  rank->end_batch();
  EXPECT_EQ(rank->take_turn(Forward{forward}), CheckedRank::Turn::began);
  EXPECT_FALSE(rank->violation());
}

TEST_F(OneRank, SeesAWrongByteWhenABatchBegins) {
  first_byte() ^= std::byte{1};
  rank->take_turn(Forward{4});
  ASSERT_TRUE(rank->violation());
  EXPECT_EQ(rank->violation()->check, Check::served_bytes);
  EXPECT_EQ(rank->violation()->seed, drawn.seed);
  for (const char* part :
       {"rank 0, layer 0, tensor ", "slot 0 (expert ", "byte 0: 0x", "forward 4 at its begin, epoch 0"})
    EXPECT_THAT(rank->violation()->what, HasSubstr(part));
}

TEST_F(OneRank, SeesAByteThatChangesUnderABatch) {
  rank->take_turn(Forward{4});
  first_byte() ^= std::byte{1};
  EXPECT_FALSE(rank->violation());
  rank->end_batch();
  ASSERT_TRUE(rank->violation());
  EXPECT_THAT(rank->violation()->what, HasSubstr("forward 4 at its end"));
}

TEST_F(OneRank, SeesAWrongGuardAtTheEnd) {
  (&first_byte())[-1] ^= std::byte{1};
  rank->check_all();
  ASSERT_TRUE(rank->violation());
  EXPECT_EQ(rank->violation()->check, Check::unnamed_bytes);
  EXPECT_THAT(rank->violation()->what, HasSubstr("guard, byte 31"));
}

TEST_F(OneRank, SeesACommitThatNobodyBegan) {
  rank->on_commit(Step{}, Epoch{1});
  ASSERT_TRUE(rank->violation());
  EXPECT_EQ(rank->violation()->check, Check::step_of_program);
}

TEST_F(OneRank, SeesAStepOfAnotherProgram) {
  Program program;
  program.steps.push_back({{{LayerId{0}, ExpertId{0}, SlotId{1}, SlotId{0}, MoveKind::local_copy}}, {}, 0});
  rank->begin(program);
  rank->on_commit(program.steps[0], Epoch{1});
  EXPECT_FALSE(rank->violation());
  rank->on_commit(program.steps[0], Epoch{2});  // Beyond its end.
  EXPECT_EQ(rank->violation()->check, Check::step_of_program);
}

TEST_F(OneRank, SeesAnEpochThatIsNotInService) {
  Program program;
  program.steps.push_back({{}, {{LayerId{0}, SlotId{0}}}, 0});
  rank->begin(program);
  rank->on_commit(program.steps[0], Epoch{1});
  rank->progress();
  ASSERT_TRUE(rank->violation());
  EXPECT_EQ(rank->violation()->check, Check::one_epoch);
}

TEST_F(OneRank, SeesAProgramThatIsRefused) {
  Program program;
  program.epoch = Epoch{3};
  program.steps.push_back({{}, {{LayerId{0}, SlotId{0}}}, 0});
  rank->begin(program);
  ASSERT_TRUE(rank->violation());
  EXPECT_EQ(rank->violation()->check, Check::alive);
}

}  // namespace
}  // namespace trimtab::verify
