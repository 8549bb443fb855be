// SPDX-License-Identifier: Apache-2.0
#include "plan/group_homes.hpp"

#include <gtest/gtest.h>

#include "support/placements.hpp"

namespace trimtab::test {
namespace {

GroupHomes homes_of(std::initializer_list<std::int32_t> nodes) {
  GroupHomes homes;
  for (std::int32_t node : nodes) homes.push_back(NodeId{node});
  return homes;
}

TEST(NearestHomes, AreThoseOfAPlacementThatKeepsGroupsTogether) {
  const Topology topology = uniform(4, 2, 8);
  const Placement placement = one_layer(8, {6, 7, 0, 1, 2, 3, 4, 5});  // four groups of two
  EXPECT_EQ(nearest_homes(placement.layer(LayerId{0}), 8, 4, topology), homes_of({0, 1, 1, 0}));
}

TEST(NearestHomes, HoldEquallyManyGroupsWhereTheRowDoesNot) {
  const Topology topology = uniform(2, 2, 8);
  const Placement placement = one_layer(4, {0, 1, 2, 0, 3, 2, 2, 3});  // four groups of one
  EXPECT_EQ(nearest_homes(placement.layer(LayerId{0}), 4, 4, topology), homes_of({0, 0, 1, 1}));
}

TEST(LevelHomes, ExchangeGroupsUntilNoNodeIsAboveTheLimit) {
  const Topology topology = uniform(2, 2, 8);
  const std::vector<double> loads{5, 4, 2, 1};
  const GroupHomes start = homes_of({0, 0, 1, 1});
  EXPECT_DOUBLE_EQ(node_pressure(start, loads, topology), 9.0);
  const auto path = level_homes(start, loads, topology, 6.0);
  ASSERT_EQ(path.size(), 1U);
  EXPECT_DOUBLE_EQ(node_pressure(path[0], loads, topology), 6.0);
}

TEST(LevelHomes, StayWhereTheyAreEvenEnough) {
  const Topology topology = uniform(2, 2, 8);
  EXPECT_TRUE(level_homes(homes_of({0, 0, 1, 1}), std::vector<double>{5, 4, 2, 1}, topology, 9.0).empty());
}

TEST(LevelHomes, KnowTheSpeedOfNodes) {
  const Topology topology = Topology::make({{NodeId{0}, 4, 2.0}, {NodeId{1}, 4, 1.0}}).value();
  // 8 on the fast node and 4 on the other: level.
  EXPECT_TRUE(level_homes(homes_of({0, 0, 1, 1}), std::vector<double>{4, 4, 2, 2}, topology, 4.0).empty());
  EXPECT_EQ(level_homes(homes_of({1, 1, 0, 0}), std::vector<double>{4, 4, 2, 2}, topology, 4.0).size(), 2U);
}

}  // namespace
}  // namespace trimtab::test
