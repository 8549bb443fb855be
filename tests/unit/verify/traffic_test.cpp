// SPDX-License-Identifier: Apache-2.0
#include "verify/traffic.hpp"

#include "verify/virtual_clock.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

TEST(ForwardEpochs, SeeAForwardThatIsServedUnderTwo) {
  ForwardEpochs epochs;
  EXPECT_EQ(epochs.serve(0, Forward{7}, Epoch{2}), "");
  EXPECT_EQ(epochs.serve(1, Forward{8}, Epoch{3}), "");
  EXPECT_EQ(epochs.serve(1, Forward{7}, Epoch{3}),
            "forward 7: rank 1 serves it under epoch 3, another rank under 2");
  epochs.forget_before(Forward{8});
  EXPECT_EQ(epochs.serve(1, Forward{7}, Epoch{3}), "");
}

TEST(Traffic, EndsNoForwardThatAnotherRankHasNotBegun) {
  CaseOptions options;
  options.ranks = 2;
  options.faults.clear();
  Case drawn = draw_case(1, options).value();
  drawn.pace.max_in_flight = 2;
  drawn.pace.max_batch_ticks = 0;
  VirtualClock clock;
  auto channels = *make_inproc_transports(2);
  std::vector<std::unique_ptr<CheckedRank>> ranks;
  for (Rank rank : ids<Rank>(2))
    ranks.push_back(*CheckedRank::make({.drawn = drawn, .rank = rank, .clock = clock},
                                       std::move(channels[rank.index()])));
  Traffic traffic(drawn.pace, ranks);
  Random random(1);
  traffic.take_turn(0, 1, random);
  traffic.take_turn(0, 2, random);
  traffic.take_turn(0, 3, random);  // Full.
  traffic.end_batches(0, 9);
  EXPECT_EQ(ranks[0]->num_in_flight(), 2U);
  traffic.take_turn(1, 9, random);
  traffic.end_batches(0, 9);
  EXPECT_EQ(ranks[0]->num_in_flight(), 1U);
}

}  // namespace
}  // namespace trimtab::verify
