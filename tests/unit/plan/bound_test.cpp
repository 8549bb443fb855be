// SPDX-License-Identifier: Apache-2.0
#include "plan/bound.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using Loads = std::vector<double>;

double bound_of(const Loads& loads, const Topology& topology) {
  Region region{{}, usable_ranks(topology)};
  for (ExpertId e : ids<ExpertId>(loads.size())) region.experts.push_back(e);
  return pressure_bound(loads, region, topology);
}

TEST(PressureBound, IsTheMeanWhereLoadsAreSmall) {
  EXPECT_DOUBLE_EQ(bound_of({1, 1, 1, 1}, Topology::make_uniform(2, 1, 4).value()), 2.0);
}

TEST(PressureBound, IsTheHeaviestReplicaOfTheBestCounts) {
  // 100 can be halved at best: the other expert needs the third slot.
  EXPECT_DOUBLE_EQ(bound_of({100, 1}, Topology::make_uniform(3, 1, 3).value()), 50.0);
}

TEST(PressureBound, KnowsThatOneExpertFitsARankOnce) {
  // Six slots, but only two ranks: expert 0 puts 50 on one of them, and the mean is 51.
  EXPECT_DOUBLE_EQ(bound_of({100, 1, 1}, Topology::make_uniform(2, 1, 6).value()), 51.0);
  EXPECT_DOUBLE_EQ(bound_of({100, 1, 1}, Topology::make({{NodeId{0}, 1}, {NodeId{0}, 2}}).value()), 100.0);
}

TEST(PressureBound, CountsSlotlessRanksAsNoHelp) {
  const auto topology = Topology::make({{NodeId{0}, 4}, {NodeId{0}, 0}}).value();
  EXPECT_DOUBLE_EQ(bound_of({1, 1, 1, 1}, topology), 4.0);
}

TEST(PressureBound, UsesTheFastestRanksAnExpertCouldHave) {
  const auto topology = Topology::make({{NodeId{0}, 1, 1.0}, {NodeId{0}, 1, 4.0}}).value();
  EXPECT_DOUBLE_EQ(bound_of({100, 0}, topology), 25.0);
}

TEST(PressureBoundByGroup, AddsTheGroupFloorToTheNodeFloor) {
  // Two nodes of two ranks with one slot each; a node's two experts have one slot each.
  const auto topology = Topology::make_uniform(4, 2, 4).value();
  const std::vector<std::vector<ExpertId>> groups = {{ExpertId{0}, ExpertId{1}}, {ExpertId{2}, ExpertId{3}}};
  const std::vector<NodeRanks> nodes = {{{Rank{0}, Rank{1}}, 2.0, 0}, {{Rank{2}, Rank{3}}, 2.0, 0}};
  const Loads loads = {70, 10, 45, 45};
  const GroupPacking packing = pack_groups(Loads{80, 90}, Loads{2, 2});
  EXPECT_DOUBLE_EQ(pressure_bound(loads, groups, nodes, packing, topology), 70.0);
  const Loads level = {40, 40, 45, 45};
  EXPECT_DOUBLE_EQ(pressure_bound(level, groups, nodes, packing, topology), 45.0);
}

}  // namespace
}  // namespace trimtab::test
