// SPDX-License-Identifier: Apache-2.0
#include "moe/speedup.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trimtab::moe {
namespace {

TEST(Speedup, KnowsTheTableOfStudentsT) {
  EXPECT_NEAR(student_t_95(1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_95(2), 4.3027, 1e-4);
  EXPECT_NEAR(student_t_95(3), 3.1824, 1e-4);
  EXPECT_NEAR(student_t_95(7), 2.3646, 1e-4);
  EXPECT_NEAR(student_t_95(30), 2.0423, 1e-4);
}

TEST(Speedup, IsTheGeometricMeanOfTheQuads) {
  const std::vector<Quad> quads{{2.0, 1.0}, {1.0, 2.0}, {2.0, 1.0}, {1.0, 2.0}};
  EXPECT_NEAR(compute_speedup(quads).mean, 1.0, 1e-12);
}

TEST(Speedup, HasNoSpreadWhenAllQuadsAgree) {
  const Speedup speedup = compute_speedup(std::vector<Quad>(8, {3.0, 2.0}));
  EXPECT_NEAR(speedup.mean, 1.5, 1e-12);
  EXPECT_NEAR(speedup.low, 1.5, 1e-9);
  EXPECT_NEAR(speedup.high, 1.5, 1e-9);
}

TEST(Speedup, WidensWithTheSpreadAsComputedByHand) {
  // Logs 0.1 and 0.3: mean 0.2, deviation 0.1414, half width 12.7062 * 0.1414 / sqrt(2).
  const std::vector<Quad> quads{{std::exp(0.1), 1.0}, {std::exp(0.3), 1.0}};
  const Speedup speedup = compute_speedup(quads);
  EXPECT_NEAR(std::log(speedup.low), 0.2 - 1.27062, 1e-4);
  EXPECT_NEAR(std::log(speedup.high), 0.2 + 1.27062, 1e-4);
}

TEST(Speedup, ClaimsNothingFromOneQuad) {
  const Speedup speedup = compute_speedup(std::vector<Quad>{{3.0, 2.0}});
  EXPECT_EQ(speedup.low, 0.0);
  EXPECT_TRUE(std::isinf(speedup.high));
}

}  // namespace
}  // namespace trimtab::moe
