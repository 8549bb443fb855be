// SPDX-License-Identifier: Apache-2.0
#include "verify/forward_board.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

TEST(ForwardBoard, KnowsWhatARankHasBegunInAView) {
  ForwardBoard board;
  EXPECT_FALSE(board.has_begun(Rank{1}, 0, Forward{0}));
  board.begin(Rank{1}, 0, Forward{4});
  EXPECT_TRUE(board.has_begun(Rank{1}, 0, Forward{4}));
  EXPECT_TRUE(board.has_begun(Rank{1}, 0, Forward{3}));
  EXPECT_FALSE(board.has_begun(Rank{1}, 0, Forward{5}));
  EXPECT_FALSE(board.has_begun(Rank{2}, 0, Forward{4}));
  board.begin(Rank{1}, 1, Forward{2});
  EXPECT_FALSE(board.has_begun(Rank{1}, 0, Forward{2}));
  EXPECT_TRUE(board.has_begun(Rank{1}, 1, Forward{2}));
}

TEST(ForwardBoard, SeesTwoEpochsOfOneForward) {
  ForwardBoard board;
  EXPECT_EQ(board.serve(0, Forward{7}, Epoch{1}), std::nullopt);
  EXPECT_EQ(board.serve(0, Forward{7}, Epoch{1}), std::nullopt);
  EXPECT_EQ(board.serve(0, Forward{7}, Epoch{2}), Epoch{1});
  EXPECT_EQ(board.serve(1, Forward{7}, Epoch{2}), std::nullopt);  // Served again in the next view.
  EXPECT_EQ(board.serve(0, Forward{7}, Epoch{3}), std::nullopt);  // Too old to be known.
}

}  // namespace
}  // namespace trimtab::verify
