// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_budget.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

const std::vector<CurvePoint> steep{{0, 2.0}, {1, 1.5}, {2, 1.2}, {4, 1.05}};
const std::vector<CurvePoint> flat{{0, 1.3}, {2, 1.2}, {6, 1.0}};

std::vector<std::size_t> spend(std::int64_t max_moves) {
  const std::vector<PricedCurve> curves{{steep, steep.size() - 1}, {flat, flat.size() - 1}};
  return spend_moves(curves, max_moves);
}

TEST(SpendMoves, BuysWhereItTakesMostOff) {
  EXPECT_EQ(spend(0), (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(spend(1), (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(spend(2), (std::vector<std::size_t>{2, 0}));
  EXPECT_EQ(spend(4), (std::vector<std::size_t>{3, 0}));  // 0.075 a move there, 0.05 here
  EXPECT_EQ(spend(6), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(spend(100), (std::vector<std::size_t>{3, 2}));
}

TEST(SpendMoves, SkipsAPointThatIsNoBargain) {
  const std::vector<CurvePoint> bent{{0, 2.0}, {1, 1.99}, {2, 1.0}};
  const std::vector<PricedCurve> curves{{bent, 2}, {flat, 2}};
  EXPECT_EQ(spend_moves(curves, 2), (std::vector<std::size_t>{2, 0}));
  EXPECT_EQ(spend_moves(curves, 1), (std::vector<std::size_t>{1, 0}));
}

TEST(SpendMoves, PaysForRequiredMovesFirstAndStopsAtTheLastWanted) {
  const std::vector<CurvePoint> required{{3, 2.0}, {4, 1.0}};
  const std::vector<PricedCurve> curves{{required, 0}, {steep, 2}};
  EXPECT_EQ(spend_moves(curves, 4), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(spend_moves(curves, 100), (std::vector<std::size_t>{0, 2}));
}

}  // namespace
}  // namespace trimtab::test
