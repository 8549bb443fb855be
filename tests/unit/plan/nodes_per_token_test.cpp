// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/nodes_per_token.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace trimtab::test {
namespace {

std::vector<ExpertId> row_of(std::initializer_list<std::int32_t> values) {
  std::vector<ExpertId> row;
  for (std::int32_t value : values) row.push_back(ExpertId{value});
  return row;
}

TEST(NodesPerToken, IsTheNumberOfGroupsWhereEachHasANode) {
  const auto topology = Topology::make_uniform(4, 4, 8).value();
  const std::vector<double> loads(8, 1.0);
  const auto nodes = compute_nodes_per_token(loads, row_of({0, 1, 2, 3, 4, 5, 6, 7}), topology, {4, 2, 4});
  EXPECT_DOUBLE_EQ(nodes.mean, 2.0);
  EXPECT_EQ(nodes.max, 2);
}

TEST(NodesPerToken, CountsANodeOfTwoGroupsOnce) {
  // Four groups on two nodes; of the six pairs of groups two share a node: (2 * 1 + 4 * 2) / 6.
  const auto topology = Topology::make_uniform(2, 2, 8).value();
  const std::vector<double> loads(8, 1.0);
  const auto nodes = compute_nodes_per_token(loads, row_of({0, 1, 2, 3, 4, 5, 6, 7}), topology, {4, 2, 4});
  EXPECT_DOUBLE_EQ(nodes.mean, 10.0 / 6.0);
  EXPECT_EQ(nodes.max, 2);
}

TEST(NodesPerToken, WeighsGroupsByLoad) {
  // Pairs of groups of load 3, 1, 1, the first two on node 0: 3 * 1 meets one node, 3 * 1 and 1 * 1 two.
  const auto topology = Topology::make({{NodeId{0}, 2}, {NodeId{1}, 1}}).value();
  const auto nodes =
      compute_nodes_per_token(std::vector<double>{3, 1, 1}, row_of({0, 1, 2}), topology, {3, 2, 2});
  EXPECT_DOUBLE_EQ(nodes.mean, (3.0 * 1 + 3.0 * 2 + 1.0 * 2) / 7.0);
}

TEST(NodesPerToken, GrowsWithReplicasElsewhere) {
  // One group of one expert with a replica on each of two nodes, one draw: one node each time.
  const auto topology = Topology::make_uniform(2, 2, 2).value();
  const auto one = compute_nodes_per_token(std::vector<double>{5}, row_of({0, 0}), topology, {1, 1, 1});
  EXPECT_DOUBLE_EQ(one.mean, 1.0);
  EXPECT_EQ(one.max, 1);
  // two experts, each half here and half there, two draws: 1 + 1/2
  const auto wide = Topology::make_uniform(2, 2, 4).value();
  const auto two = compute_nodes_per_token(std::vector<double>{5, 5}, row_of({0, 1, 0, 1}), wide, {1, 1, 2});
  EXPECT_DOUBLE_EQ(two.mean, 1.5);
  EXPECT_EQ(two.max, 2);
}

TEST(NodesPerToken, IgnoresDeadRanksAndGroupsWithoutLoad) {
  const auto topology = Topology::make({{NodeId{0}, 2}, {NodeId{1}, 2, 1.0, false}}).value();
  const auto nodes =
      compute_nodes_per_token(std::vector<double>{5, 0}, row_of({0, 1, 0, 1}), topology, {2, 2, 2});
  EXPECT_DOUBLE_EQ(nodes.mean, 1.0);
  EXPECT_EQ(nodes.max, 1);
  EXPECT_EQ(
      compute_nodes_per_token(std::vector<double>{0, 0}, row_of({0, 1, -1, -1}), topology, {2, 1, 1}).max, 0);
}

}  // namespace
}  // namespace trimtab::test
