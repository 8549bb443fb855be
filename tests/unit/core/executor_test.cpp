// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

TEST(SerialExecutor, CallsEachIndexOnceInOrder) {
  SerialExecutor executor;
  std::vector<std::size_t> seen;
  executor.for_each_index(4, [&](std::size_t i) { seen.push_back(i); });
  EXPECT_THAT(seen, ::testing::ElementsAre(0U, 1U, 2U, 3U));
}

TEST(ThreadedExecutor, CallsEachIndexOnce) {
  ThreadedExecutor executor(3);
  std::vector<int> calls(1000, 0);
  executor.for_each_index(calls.size(), [&](std::size_t i) { ++calls[i]; });
  EXPECT_EQ(calls, std::vector<int>(1000, 1));
}

}  // namespace
}  // namespace trimtab::test
