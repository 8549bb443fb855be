// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/waterfill.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Loads = std::vector<std::int64_t>;

std::vector<Rank> ranks_of(std::initializer_list<int> numbers) {
  std::vector<Rank> ranks;
  for (int number : numbers) ranks.push_back(Rank{number});
  return ranks;
}

TEST(FillRanks, LevelsFromBelow) {
  const auto topology = Topology::make_uniform(3, 1, 3).value();
  EXPECT_THAT(fill_ranks(Loads{10, 4, 6}, 3, topology).value(), ElementsAre(0, 3, 0));
  EXPECT_THAT(fill_ranks(Loads{10, 4, 6}, 10, topology).value(), ElementsAre(0, 6, 4));
  EXPECT_THAT(fill_ranks(Loads{10, 4, 6}, 12, topology).value(), ElementsAre(1, 7, 4));
  EXPECT_THAT(fill_ranks(Loads{10, 4, 6}, 0, topology).value(), ElementsAre(0, 0, 0));
}

TEST(FillRanks, LeavesDeadRanksEmpty) {
  const auto topology = Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}}).value();
  EXPECT_THAT(fill_ranks(Loads{10, 0}, 5, topology).value(), ElementsAre(5, 0));
}

TEST(FillRanks, RefusesWhatIsNoLoad) {
  const auto topology = Topology::make_uniform(2, 1, 2).value();
  EXPECT_THAT(fill_ranks(Loads{1}, 1, topology).error().message,
              HasSubstr("loads of 1 ranks, the topology has 2"));
  EXPECT_THAT(fill_ranks(Loads{1, -2}, 1, topology).error().message, HasSubstr("rank 1: load -2"));
  EXPECT_THAT(fill_ranks(Loads{1, 2}, -1, topology).error().message, HasSubstr("-1 shared-expert tokens"));
  EXPECT_FALSE(fill_ranks(Loads{1, INT64_MAX}, 1, topology).has_value());
}

TEST(FillByToken, StaysAtHomeOrWhereTheTokenGoesAnyway) {
  const auto topology = Topology::make_uniform(3, 1, 3).value();
  const auto home = ranks_of({0, 0, 0});
  const auto visited = ranks_of({0, 1, -1, 1, 0, 0});
  const auto fill = fill_by_token(Loads{20, 10, 0}, {home, visited, 2}, topology).value();
  EXPECT_THAT(fill.ranks, ElementsAre(Rank{1}, Rank{1}, Rank{0}));
  EXPECT_EQ(fill.num_extra, 0);
  EXPECT_DOUBLE_EQ(fill.max_pressure, 21.0);
}

TEST(FillByToken, GoesAnywhereWhileTheFullestRankIsBelowTheMean) {
  const auto topology = Topology::make_uniform(3, 1, 3).value();
  const auto home = ranks_of({0, 0, 0, 0, 0, 0});
  const auto fill = fill_by_token(Loads{1, 1, 1}, {home, {}, 0}, topology).value();
  EXPECT_THAT(fill.ranks, ElementsAre(Rank{0}, Rank{0}, Rank{1}, Rank{1}, Rank{2}, Rank{2}));
  EXPECT_EQ(fill.num_extra, 4);
}

TEST(FillByToken, TakesAnEmptyBatch) {
  const auto topology = Topology::make_uniform(2, 1, 2).value();
  const auto fill = fill_by_token(Loads{3, 1}, {{}, {}, 8}, topology).value();
  EXPECT_TRUE(fill.ranks.empty());
  EXPECT_DOUBLE_EQ(fill.max_pressure, 3.0);
}

TEST(FillByToken, RefusesRanksThatAreNone) {
  const auto topology = Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}}).value();
  const auto message = [&](std::initializer_list<int> home, std::initializer_list<int> visited, int k) {
    const auto homes = ranks_of(home);
    const auto visits = ranks_of(visited);
    return fill_by_token(Loads{3, 0}, {homes, visits, k}, topology).error().message;
  };
  EXPECT_THAT(message({0, 2}, {0, 0}, 1), HasSubstr("token 1: home 2"));
  EXPECT_THAT(message({0, 1}, {0, 0}, 1), HasSubstr("token 1: home 1 is not a live rank"));
  EXPECT_THAT(message({0, 0}, {0, 0, 5, 0}, 2), HasSubstr("token 1: visited rank 5 is not in -1..1"));
  EXPECT_THAT(message({0, 0}, {0, -2}, 1), HasSubstr("token 1: visited rank -2"));
  EXPECT_THAT(message({0, 0}, {0}, 1), HasSubstr("1 visited ranks for 2 tokens x 1"));
}

}  // namespace
}  // namespace trimtab::test
