// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/nearby_split.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Loads = std::vector<std::int64_t>;

std::vector<ExpertId> row_of(std::initializer_list<int> experts) {
  std::vector<ExpertId> row;
  for (int expert : experts) row.push_back(ExpertId{expert});
  return row;
}

/// One expert on ranks 0 and 2 of two nodes of two ranks.
struct OneExpert {
  Topology topology = Topology::make_uniform(4, 2, 4).value();
  std::vector<ExpertId> row = row_of({0, -1, 0, -1});
};

TEST(SolveNearby, TradesBalanceForNearness) {
  const OneExpert layer;
  const Loads by_source{10, 0, 2, 0};
  const auto exact = solve_nearby(layer.row, 1, layer.topology, by_source, 0.0).value();
  EXPECT_THAT(exact.assignments, ElementsAre(6, 0, 6, 0));
  EXPECT_EQ(exact.after.rank, 4);
  EXPECT_EQ(exact.after.node, 4);
  const auto near = solve_nearby(layer.row, 1, layer.topology, by_source, 0.5).value();
  EXPECT_THAT(near.assignments, ElementsAre(9, 0, 3, 0));
  EXPECT_EQ(near.before.rank, 4);
  EXPECT_EQ(near.after.rank, 1);
  EXPECT_DOUBLE_EQ(near.max_pressure, 9.0);
  EXPECT_DOUBLE_EQ(near.optimum, 6.0);
}

TEST(SolveNearby, LeavesTheRankBeforeTheNode) {
  const auto topology = Topology::make_uniform(4, 2, 4).value();
  const auto row = row_of({0, 0, 0, -1});
  const auto near = solve_nearby(row, 1, topology, Loads{8, 0, 0, 0}, 0.5).value();
  EXPECT_THAT(near.assignments, ElementsAre(4, 4, 0, 0));
}

TEST(SplitOfSource, ServesOwnRankThenOwnNodeThenTheRest) {
  const OneExpert layer;
  const Loads by_source{3, 4, 1, 4};
  const Loads assignments{6, 0, 6, 0};
  const auto row = [&](int source) {
    return split_of_source(layer.row, 1, layer.topology, by_source, assignments, Rank{source}).value();
  };
  EXPECT_THAT(row(0), ElementsAre(3, 0, 0, 0));
  EXPECT_THAT(row(1), ElementsAre(3, 0, 1, 0));
  EXPECT_THAT(row(2), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(row(3), ElementsAre(0, 0, 4, 0));
}

TEST(SplitOfSource, RefusesASplitOfOtherLoads) {
  const OneExpert layer;
  const auto message = [&](const Loads& by_source, const Loads& assignments, int source) {
    return split_of_source(layer.row, 1, layer.topology, by_source, assignments, Rank{source})
        .error()
        .message;
  };
  EXPECT_THAT(message({1, 1, 1, 1}, {2, 0, 3, 0}, 0), HasSubstr("expert 0: sources have 4 assignments"));
  EXPECT_THAT(message({1, 1, 1, 1}, {2, 2, 0, 0}, 0), HasSubstr("its live slots 2"));
  EXPECT_THAT(message({1, 1, 1, 1}, {2, 0, 2, 0}, 4), HasSubstr("source rank 4 is not in 0..3"));
  EXPECT_THAT(message({1, 1, 1}, {2, 0, 2, 0}, 0), HasSubstr("size 3 for 4 ranks x 1 experts"));
  EXPECT_THAT(message({1, 1, 1, 1}, {2, 0, 2}, 0), HasSubstr("3 assigned"));
}

TEST(SolveNearby, RefusesBadInput) {
  const OneExpert layer;
  const auto message = [&](const Loads& by_source, double slack, const LeavingCosts& costs) {
    return solve_nearby(layer.row, 1, layer.topology, by_source, slack, costs).error().message;
  };
  EXPECT_THAT(message({1, 1, 1}, 0.0, {}), HasSubstr("size 3"));
  EXPECT_THAT(message({1, 1, -1, 1}, 0.0, {}), HasSubstr("source rank 2, expert 0: load -1"));
  EXPECT_THAT(message({1, 1, INT64_MAX, INT64_MAX}, 0.0, {}), HasSubstr("source rank 2"));
  EXPECT_THAT(message({1, 1, 1, 1}, -0.1, {}), HasSubstr("slack -0.1"));
  EXPECT_THAT(message({1, 1, 1, 1}, std::numeric_limits<double>::quiet_NaN(), {}), HasSubstr("slack nan"));
  EXPECT_THAT(message({1, 1, 1, 1}, 0.0, {-1, 0}), HasSubstr("costs -1"));
  EXPECT_THAT(solve_nearby(row_of({0, -1, 7, -1}), 1, layer.topology, Loads{1, 1, 1, 1}, 0.0).error().message,
              HasSubstr("slot 2: expert 7"));
}

}  // namespace
}  // namespace trimtab::test
