// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/replica_graph.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;

std::vector<ExpertId> row_of(std::initializer_list<int> experts) {
  std::vector<ExpertId> row;
  for (int e : experts) row.push_back(ExpertId{e});
  return row;
}

TEST(ReplicaGraph, JoinsRanksThatShareAnExpert) {
  // 0 and 2 share expert 0, 2 and 3 share 4; 1 is alone.
  const auto topology = Topology::make_uniform(4, 1, 8).value();
  const auto graph = make_replica_graph(row_of({0, 1, 2, 3, 0, 4, 4, 5}), topology);
  EXPECT_EQ(graph.num_ranks, 4);
  EXPECT_EQ(graph.num_components(), 2);
  EXPECT_THAT(graph.component_sizes, ElementsAre(3, 1));
  EXPECT_THAT(graph.component_of, ElementsAre(0, 1, 0, 0));
  EXPECT_EQ(graph.num_isolated, 1);
  EXPECT_EQ(graph.links.min, 0);
  EXPECT_EQ(graph.links.max, 2);
  EXPECT_DOUBLE_EQ(graph.links.mean, 1.0);
}

TEST(ReplicaGraph, TellsNeighboursFromLinks) {
  // 0 and 1 share two experts; 2 shares one with both.
  const auto topology = Topology::make_uniform(3, 1, 6).value();
  const auto graph = make_replica_graph(row_of({0, 1, 0, 1, 0, 2}), topology);
  EXPECT_EQ(graph.neighbours.min, 2);
  EXPECT_EQ(graph.neighbours.max, 2);
  EXPECT_EQ(graph.links.min, 2);
  EXPECT_EQ(graph.links.max, 3);
  EXPECT_DOUBLE_EQ(graph.links.mean, 8.0 / 3.0);
}

TEST(ReplicaGraph, LooksOnlyAtLiveRanksWithSlots) {
  const auto topology =
      Topology::make({{NodeId{0}, 2}, {NodeId{0}, 2, 1.0, false}, {NodeId{0}, 0}, {NodeId{0}, 2}}).value();
  // The dead rank holds both bridges.
  const auto graph = make_replica_graph(row_of({0, 1, 0, 2, 2, 3}), topology);
  EXPECT_EQ(graph.num_ranks, 2);
  EXPECT_THAT(graph.component_of, ElementsAre(0, -1, -1, 1));
  EXPECT_EQ(graph.num_isolated, 2);
  EXPECT_EQ(graph.neighbours.max, 0);
}

TEST(ReplicaGraph, TakesVacantSlotsAndSecondCopiesForNothing) {
  const auto topology = Topology::make_uniform(2, 1, 6).value();
  const auto graph = make_replica_graph(row_of({0, 0, -1, 1, -1, -1}), topology);
  EXPECT_EQ(graph.num_components(), 2);
  EXPECT_EQ(graph.links.max, 0);
}

TEST(ReplicaGraph, IsEmptyWithoutSlots) {
  const auto topology = Topology::make({{NodeId{0}, 0}}).value();
  const auto graph = make_replica_graph({}, topology);
  EXPECT_EQ(graph.num_components(), 0);
  EXPECT_EQ(graph.links.max, 0);
}

}  // namespace
}  // namespace trimtab::test
