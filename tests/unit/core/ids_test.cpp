// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/ids.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>
#include <vector>

namespace trimtab::test {
namespace {

TEST(Ids, KindsDoNotConvertIntoEachOther) {
  static_assert(!std::is_convertible_v<SlotId, ExpertId>);
  static_assert(!std::is_constructible_v<ExpertId, SlotId>);
  static_assert(!std::is_convertible_v<std::int32_t, ExpertId>);
  static_assert(!std::is_convertible_v<ExpertId, std::int32_t>);
}

TEST(Ids, LieInMemoryLikeTheirNumber) {
  static_assert(sizeof(ExpertId) == sizeof(std::int32_t));
  static_assert(std::is_trivially_copyable_v<ExpertId>);
  const std::int32_t raw[] = {7, -1};
  ExpertId experts[2];
  std::memcpy(experts, raw, sizeof raw);
  EXPECT_EQ(experts[0], ExpertId{7});
  EXPECT_EQ(experts[1], no_expert);
}

TEST(Ids, CompareByNumber) {
  EXPECT_LT(SlotId{3}, SlotId{4});
  EXPECT_EQ(SlotId{3}.next(), SlotId{4});
  EXPECT_EQ(Epoch{0}.next().value(), 1U);
  EXPECT_LT(no_slot, SlotId{0});
}

TEST(IdRange, VisitsEachIdOnceInOrder) {
  std::vector<std::int32_t> seen;
  for (SlotId slot : ids(SlotId{5}, 3)) seen.push_back(slot.value());
  EXPECT_EQ(seen, (std::vector<std::int32_t>{5, 6, 7}));
}

TEST(IdRange, KnowsSizeAndBounds) {
  const auto range = ids<ExpertId>(4);
  EXPECT_EQ(range.size(), 4U);
  EXPECT_TRUE(range.contains(ExpertId{0}));
  EXPECT_TRUE(range.contains(ExpertId{3}));
  EXPECT_FALSE(range.contains(ExpertId{4}));
  EXPECT_FALSE(range.contains(no_expert));
}

TEST(IdRange, MayBeEmpty) {
  const auto range = ids<Rank>(0);
  EXPECT_EQ(range.size(), 0U);
  EXPECT_TRUE(range.begin() == range.end());
}

}  // namespace
}  // namespace trimtab::test
