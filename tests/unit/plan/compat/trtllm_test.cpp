// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/trtllm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/generated_loads.hpp"

namespace trimtab::test {
namespace {

using testing::ElementsAre;

std::vector<std::int32_t> count(const std::vector<double>& loads, std::int32_t num_slots) {
  return count_like_trtllm(loads, num_slots);
}

std::vector<std::int32_t> plan(const std::vector<double>& loads, std::size_t num_slots,
                               std::int32_t num_ranks) {
  std::vector<ExpertId> row(num_slots);
  plan_row_like_trtllm(loads, num_ranks, row);
  std::vector<std::int32_t> experts;
  for (ExpertId e : row) experts.push_back(e.value());
  return experts;
}

// The counts that TensorRT-LLM's own unit tests expect.
TEST(Trtllm, CountsAsItsUnitTestsExpect) {
  EXPECT_THAT(count({1, 4, 2, 1}, 8), ElementsAre(1, 4, 2, 1));
  EXPECT_THAT(count({10, 5, 2, 15, 8}, 9), ElementsAre(2, 1, 1, 3, 2));
  EXPECT_THAT(count({0, 0, 0, 0}, 6), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(count({0, 10, 0}, 4), ElementsAre(1, 2, 1));
}

TEST(Trtllm, ReplicatesTheHigherOfEqualExperts) { EXPECT_THAT(count({3, 3, 3}, 4), ElementsAre(1, 1, 2)); }

TEST(Trtllm, CountsInSinglePrecision) {
  EXPECT_THAT(count({16777217, 16777216}, 3), ElementsAre(1, 2));  // Equal as float32.
}

TEST(Trtllm, TakesNegativeZeroForZero) { EXPECT_THAT(count({-0.0, -0.0}, 3), ElementsAre(2, 1)); }

TEST(Trtllm, PutsEqualReplicasOnLowerRanksInOrderOfExperts) {
  EXPECT_THAT(plan({5, 5, 5, 5}, 4, 2), ElementsAre(0, 2, 1, 3));
}

TEST(Trtllm, SkipsRanksThatAreFull) {
  // 9 | 1 1 1: the second rank is full after three, so the last goes to the first rank, which carries more.
  EXPECT_THAT(plan({9, 1, 1, 1, 1, 1}, 6, 2), ElementsAre(0, 4, 5, 1, 2, 3));
}

// deepseek-ai/EPLB#22: two copies of an expert on one rank. TensorRT-LLM makes them too.
TEST(Trtllm, PutsAnExpertOnARankTwice) {
  EXPECT_THAT(plan({17, 13, 10, 6}, 6, 2), ElementsAre(2, 1, 1, 0, 0, 3));
}

}  // namespace
}  // namespace trimtab::test
