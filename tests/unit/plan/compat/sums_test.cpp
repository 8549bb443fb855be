// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/sums.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace trimtab {
namespace {

/// In single precision one is lost beside `huge`, and two are not.
constexpr float huge = 16777216.0F;

float sequential(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0F);
}

TEST(Sums, AddUpWhatIsExact) {
  for (std::size_t n : {1U, 7U, 8U, 31U, 32U, 511U, 512U, 513U, 5000U}) {
    const std::vector<float> ones(n, 1.0F);
    EXPECT_EQ(sum_like_torch(ones), static_cast<float>(n)) << n;
    EXPECT_EQ(sum_like_numpy(ones), static_cast<float>(n)) << n;
  }
}

TEST(Sums, OfTorchAreSequentialUpToFour) {
  EXPECT_EQ(sum_like_torch(std::vector<float>{huge, 1, 1, 1}), huge);
}

TEST(Sums, OfTorchPutTheFifthToTheFirst) {
  // (1 + huge) + 1 + 1 + 0 loses each one; in sequence 1 + 1 + 1 + 0 comes to 3, and 3 + huge rounds to huge
  // + 4.
  const std::vector<float> values{1, 1, 1, 0, huge};
  EXPECT_EQ(sequential(values), huge + 4.0F);
  EXPECT_EQ(sum_like_torch(values), huge);
}

TEST(Sums, OfTorchAddLanesBehindTheTail) {
  // Lanes hold 8 ones, the tail is huge: it takes each lane by itself, and loses it.
  std::vector<float> values(8, 1.0F);
  values.push_back(huge);
  EXPECT_EQ(sum_like_torch(values), huge);
  EXPECT_EQ(sequential(values), huge + 8.0F);
}

TEST(Sums, OfNumpyPairTheLanes) {
  std::vector<float> values(8, 1.0F);
  values.push_back(huge);
  EXPECT_EQ(sum_like_numpy(values), huge + 8.0F);
  EXPECT_EQ(sum_like_numpy(std::vector<float>{huge, 1, 1, 1, 1, 1, 1, 1}), huge + 6.0F);
}

}  // namespace
}  // namespace trimtab
