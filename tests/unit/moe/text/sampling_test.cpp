// SPDX-License-Identifier: Apache-2.0
#include "moe/text/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trimtab::moe {
namespace {

TEST(Sampling, BitsAreThoseOfTheProbability) {
  const std::vector<float> logits{std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  EXPECT_NEAR(bits_of(logits, 0), 3.0, 1e-6);
  EXPECT_NEAR(bits_of(logits, 1), 2.0, 1e-6);
  EXPECT_NEAR(bits_of(logits, 2), std::log2(8.0 / 5.0), 1e-6);
}

TEST(Sampling, BitsStayFiniteForLargeLogits) {
  const std::vector<float> logits{1e30f, -1e30f};
  EXPECT_NEAR(bits_of(logits, 0), 0.0, 1e-9);
  EXPECT_TRUE(std::isfinite(bits_of(logits, 1)));
}

TEST(Sampling, TheLikeliestByteIsTheLowestOfEquals) {
  const std::vector<float> logits{1.0f, 4.0f, 4.0f, 2.0f};
  EXPECT_EQ(choose_byte(logits, {}, 7, 3), 1);
}

TEST(Sampling, DrawnBytesFollowTheProbabilities) {
  const std::vector<float> logits{std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  std::vector<int> counts(3);
  for (std::uint64_t i = 0; i < 8000; ++i)
    ++counts[choose_byte(logits, {.temperature = 1.0, .seed = 2}, i, 4)];
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
}

TEST(Sampling, ALowTemperatureDrawsTheLikeliest) {
  const std::vector<float> logits{1.0f, 3.0f, 2.0f};
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(choose_byte(logits, {.temperature = 0.01, .seed = 2}, i, 4), 1);
}

}  // namespace
}  // namespace trimtab::moe
