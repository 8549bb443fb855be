// SPDX-License-Identifier: Apache-2.0
#include "migrate/staging.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace trimtab::test {
namespace {

TEST(StagingArena, NeverHandsOutMoreThanItsBudget) {
  StagingArena arena(256);
  const auto first = arena.allocate(100);
  const auto second = arena.allocate(128);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(arena.used_bytes(), 256U);
  EXPECT_FALSE(arena.allocate(1));
}

TEST(StagingArena, AlignsBlocks) {
  StagingArena arena(1024);
  for (std::size_t size : {1U, 65U, 64U}) {
    const auto block = arena.allocate(size);
    ASSERT_TRUE(block);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % staging_alignment, 0U);
    EXPECT_GE(block->size(), size);
  }
}

TEST(StagingArena, ReusesAGapOnlyWhenItIsLargeEnough) {
  StagingArena arena(320);
  const auto first = arena.allocate(64);
  const auto second = arena.allocate(128);
  const auto third = arena.allocate(128);
  ASSERT_TRUE(first && second && third);
  arena.release(*first);
  EXPECT_FALSE(arena.allocate(128));
  arena.release(*second);
  const auto joined = arena.allocate(192);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->data(), first->data());
}

TEST(StagingArena, RemembersTheMostThatWasUsedAtOnce) {
  StagingArena arena(512);
  EXPECT_EQ(arena.peak_bytes(), 0U);
  const auto first = arena.allocate(100);
  const auto second = arena.allocate(64);
  ASSERT_TRUE(first && second);
  arena.release(*first);
  ASSERT_TRUE(arena.allocate(64));
  EXPECT_FALSE(arena.allocate(1024));
  EXPECT_EQ(arena.peak_bytes(), 192U);
}

TEST(StagingArena, GivesEmptyBlocksFromAnEmptyBudget) {
  StagingArena arena(0);
  EXPECT_TRUE(arena.allocate(0));
  EXPECT_FALSE(arena.allocate(1));
}

}  // namespace
}  // namespace trimtab::test
