// SPDX-License-Identifier: Apache-2.0
#include "report/placement_report.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

Placement example() {
  return *Placement::make(1, 6, 3,
                          {ExpertId{1}, ExpertId{1}, ExpertId{0}, ExpertId{1}, ExpertId{2}, no_expert});
}

TEST(PlacementReport, CountsReplicasAndVacantSlots) {
  const auto layers = inspect_placement(example(), nullptr);
  EXPECT_EQ(layers[0].vacant, 1);
  EXPECT_EQ(layers[0].replicated, 1);
  EXPECT_EQ(layers[0].max_replicas, 3);
  EXPECT_EQ(layers[0].most_replicated, ExpertId{1});
  EXPECT_FALSE(layers[0].duplicates_on_rank);
}

TEST(PlacementReport, CountsDuplicatesByRank) {
  const auto two = Topology::make_uniform(2, 1, 6);
  EXPECT_EQ(inspect_placement(example(), &*two)[0].duplicates_on_rank, 1);
  const auto one = Topology::make_uniform(1, 1, 6);
  EXPECT_EQ(inspect_placement(example(), &*one)[0].duplicates_on_rank, 2);
}

}  // namespace
}  // namespace trimtab::test
