// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/winner_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trimtab {
namespace {

template <class Value>
class WinnerTreeOf : public testing::Test {};

using Values = testing::Types<float, double>;
TYPED_TEST_SUITE(WinnerTreeOf, Values);

TYPED_TEST(WinnerTreeOf, FindsTheFirstOfTheLeast) {
  using K = Key<TypeParam>;
  std::mt19937 random(3);
  for (std::size_t count : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 100U}) {
    std::vector<TypeParam> values(count, 4);
    WinnerTree<K> tree;
    tree.assign(count,
                [&](std::size_t i) { return K::smallest_first(values[i], static_cast<std::uint32_t>(i)); });
    for (int round = 0; round < 200; ++round) {
      const auto least =
          static_cast<std::size_t>(std::min_element(values.begin(), values.end()) - values.begin());
      ASSERT_EQ(tree.winner().owner(), least);
      ASSERT_EQ(tree.winner().value(), values[least]);
      const auto player = static_cast<std::uint32_t>(random() % count);
      values[player] = static_cast<TypeParam>(random() % 5);
      const K winner = tree.replace(player, K::smallest_first(values[player], player));
      ASSERT_EQ(winner.owner(), tree.winner().owner());
    }
  }
}

TYPED_TEST(WinnerTreeOf, PutsTheLargestFirstWhenAsked) {
  using K = Key<TypeParam>;
  const std::vector<TypeParam> values{1, 7, 0, 7, 2};
  WinnerTree<K> tree;
  tree.assign(values.size(),
              [&](std::size_t i) { return K::largest_first(values[i], static_cast<std::uint32_t>(i)); });
  EXPECT_EQ(tree.winner().owner(), 1U);
  EXPECT_EQ(tree.replace(1, K::last()).owner(), 3U);
}

}  // namespace
}  // namespace trimtab
