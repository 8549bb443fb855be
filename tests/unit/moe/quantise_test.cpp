// SPDX-License-Identifier: Apache-2.0
#include "moe/quantise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "moe/rng.hpp"

namespace trimtab::moe {
namespace {

TEST(Quantise, RoundsToNearestEvenWithinHalfAStep) {
  const RandomStream random(1, Use::token, 0, 0);
  for (std::size_t size = 1; size < 70; ++size) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = 5.0f * random.symmetric(size * 100 + i);
    std::vector<std::int8_t> q(size);
    const RowScale row = quantise_row(values, q);
    float largest = 0.0f;
    for (const float v : values) largest = std::max(largest, std::fabs(v));
    EXPECT_EQ(row.scale, largest / 127.0f);
    EXPECT_EQ(row.sum, std::accumulate(q.begin(), q.end(), 0));
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(static_cast<int>(q[i]), static_cast<int>(std::nearbyint(values[i] * (127.0f / largest))))
          << i;
    }
  }
}

TEST(Quantise, UsesTheWholeRangeAndTiesGoToEven) {
  const std::vector<float> values{127.0f, -127.0f, 0.5f, 1.5f, -2.5f};
  std::vector<std::int8_t> q(values.size());
  EXPECT_EQ(quantise_row(values, q), (RowScale{1.0f, -0 + 0 + 2 - 2}));
  EXPECT_EQ(q, (std::vector<std::int8_t>{127, -127, 0, 2, -2}));
}

TEST(Quantise, MakesZerosOfZeros) {
  const std::vector<float> values(9, 1e-38f);
  std::vector<std::int8_t> q(values.size(), 5);
  EXPECT_EQ(quantise_row(values, q), RowScale{});
  EXPECT_EQ(q, std::vector<std::int8_t>(9, 0));
}

TEST(Quantise, StaysInRangeForNanAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& values : {std::vector<float>{nan, 1.0f}, {infinity, -infinity, 1.0f}}) {
    std::vector<std::int8_t> q(values.size(), -128);
    quantise_row(values, q);
    for (const std::int8_t v : q) EXPECT_GE(v, -127);
  }
}

}  // namespace
}  // namespace trimtab::moe
