// SPDX-License-Identifier: Apache-2.0
#include "migrate/cut_links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace trimtab {
namespace {

using testing::ElementsAre;

RankSet make_set(std::initializer_list<std::int32_t> values) {
  RankSet set;
  for (std::int32_t value : values) set.insert(Rank{value});
  return set;
}

std::vector<std::int32_t> left(const RankSet& ranks, const std::map<Rank, Unheard>& unheard) {
  std::vector<std::int32_t> values;
  for (Rank rank : without_cut_links(ranks, unheard).ranks()) values.push_back(rank.value());
  return values;
}

TEST(CutLinks, LeaveOutTheHigherOfTwoThatWaitForEachOther) {
  EXPECT_THAT(left(make_set({0, 1, 2, 3}), {{Rank{1}, {5, make_set({2})}}, {Rank{2}, {5, make_set({1})}}}),
              ElementsAre(0, 1, 3));
}

TEST(CutLinks, SpareThoseWhoWaitForARankThatWaitsForAThird) {
  const std::map<Rank, Unheard> unheard{
      {Rank{0}, {5, make_set({1, 2})}}, {Rank{1}, {5, make_set({2})}}, {Rank{3}, {6, make_set({1, 2})}}};
  EXPECT_THAT(left(make_set({0, 1, 2, 3}), unheard), ElementsAre(0, 1, 2, 3));
}

TEST(CutLinks, AreNotSeenInDifferentForwards) {
  EXPECT_THAT(left(make_set({0, 1}), {{Rank{0}, {5, make_set({1})}}, {Rank{1}, {6, make_set({0})}}}),
              ElementsAre(0, 1));
}

TEST(CutLinks, LeaveOutTheOneRankThatHasLostSeveral) {
  const std::map<Rank, Unheard> unheard{
      {Rank{1}, {5, make_set({2, 3})}}, {Rank{2}, {5, make_set({1})}}, {Rank{3}, {5, make_set({1})}}};
  EXPECT_THAT(left(make_set({0, 1, 2, 3}), unheard), ElementsAre(0, 2, 3));
}

TEST(CutLinks, OfRanksThatAreOutAlreadyDoNotCount) {
  EXPECT_THAT(left(make_set({0, 1}), {{Rank{1}, {5, make_set({2})}}, {Rank{2}, {5, make_set({1})}}}),
              ElementsAre(0, 1));
}

}  // namespace
}  // namespace trimtab
