// SPDX-License-Identifier: Apache-2.0
#include "plan/relabel.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/placements.hpp"

namespace trimtab::test {
namespace {

constexpr LayerId layer{0};

std::vector<std::int32_t> numbers(const std::vector<ExpertId>& row) {
  std::vector<std::int32_t> result;
  for (ExpertId expert : row) result.push_back(expert.value());
  return result;
}

std::vector<std::int32_t> relabelled(const Placement& before, const Placement& after,
                                     const Topology& topology, bool keep_nodes = false) {
  const Holders holders(before.layer(layer), before.num_experts(), topology);
  return numbers(relabel_ranks(after.layer(layer), holders, topology, keep_nodes));
}

TEST(RelabelRanks, GivesEachRankWhatItHeldMostOf) {
  const Topology topology = uniform(3, 1, 6);
  const Placement before = one_layer(6, {0, 1, 2, 3, 4, 5});
  const Placement after = one_layer(6, {5, 4, 0, 3, 2, 1});
  // {5, 4} stays whole on rank 2; {0, 3} and {2, 1} keep one expert either way.
  const auto row = relabelled(before, after, topology);
  const Holders holders(before.layer(layer), 6, topology);
  EXPECT_EQ((std::vector<std::int32_t>{row[4], row[5]}), (std::vector<std::int32_t>{5, 4}));
  std::vector<ExpertId> ids_of_row;
  for (std::int32_t expert : row) ids_of_row.push_back(ExpertId{expert});
  EXPECT_EQ(count_moves(ids_of_row, holders, topology), 2);
}

TEST(RelabelRanks, PrefersTheSameNodeWhereMovesAreEqual) {
  const Topology topology = uniform(4, 2, 4);
  const Placement before = one_layer(4, {0, 1, 2, 3});
  // The same set: each content finds its rank again.
  EXPECT_EQ(relabelled(before, one_layer(4, {3, 2, 1, 0}), topology),
            (std::vector<std::int32_t>{0, 1, 2, 3}));
  // Content {2, 3} keeps one expert on rank 2 or 3 and both in that node.
  const Topology wide = uniform(4, 2, 8);
  const Placement old = one_layer(8, {0, 1, 4, 5, 2, 3, 6, 7});
  const auto row = relabelled(old, one_layer(8, {2, 6, 0, 4, 3, 7, 1, 5}), wide);
  const bool is_in_node_1 = row[4] == 2 || row[6] == 2;
  EXPECT_TRUE(is_in_node_1);
}

TEST(RelabelRanks, LeavesRanksOfOtherStandingAlone) {
  const Topology topology =
      Topology::make({{NodeId{0}, 2}, {NodeId{0}, 1}, {NodeId{0}, 2, 2.0}, {NodeId{0}, 1, 1.0, false}})
          .value();
  const Placement before = one_layer(5, {0, 1, 2, 3, 4, -1});
  const Placement after = one_layer(5, {3, 4, 2, 0, 1, -1});
  EXPECT_EQ(relabelled(before, after, topology), (std::vector<std::int32_t>{3, 4, 2, 0, 1, -1}));
}

TEST(RelabelRanks, MovesWholeNodesWhenGroupsStayTogether) {
  const Topology topology = uniform(4, 2, 8);
  const Placement before = one_layer(8, {0, 1, 2, 3, 4, 5, 6, 7});
  const Placement after = one_layer(8, {6, 7, 4, 5, 2, 3, 0, 1});
  EXPECT_EQ(relabelled(before, after, topology, true), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// deepseek-ai/EPLB#25: the same groups in another order of nodes were shipped to other nodes.
TEST(RelabelRanks, FindsNothingToMoveWhereOnlyTheNumberingDiffers) {
  const Topology topology = uniform(8, 2, 24);
  const Placement before = random_placement(1, 24, 16, 3);
  std::vector<ExpertId> turned(before.layer(layer).begin(), before.layer(layer).end());
  std::rotate(turned.begin(), turned.begin() + 12, turned.end());
  const Holders holders(before.layer(layer), 16, topology);
  EXPECT_GT(count_moves(turned, holders, topology), 0);
  for (bool keep_nodes : {false, true}) {
    const auto row = relabel_ranks(turned, holders, topology, keep_nodes);
    EXPECT_EQ(count_moves(row, holders, topology), 0);
  }
}

}  // namespace
}  // namespace trimtab::test
