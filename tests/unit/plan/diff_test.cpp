// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/diff.hpp>

#include <gtest/gtest.h>

#include "support/placements.hpp"

namespace trimtab::test {
namespace {

LayerDiff diff_of(const Placement& before, const Topology& old_topology, const Placement& after,
                  const Topology& new_topology) {
  return diff_placements(before, old_topology, after, new_topology).value().front();
}

LayerDiff diff_of(const Placement& before, const Placement& after, const Topology& topology) {
  return diff_of(before, topology, after, topology);
}

TEST(Diff, IsEmptyBetweenEqualPlacements) {
  const Placement placement = random_placement(3, 12, 7, 1);
  const Topology topology = uniform(4, 2, 12);
  const auto layers = diff_placements(placement, topology, placement, topology).value();
  EXPECT_EQ(layers.size(), 3U);
  for (const LayerDiff& layer : layers) {
    EXPECT_TRUE(layer.changes.empty());
    EXPECT_EQ(layer.counts, ChangeCounts{});
  }
}

TEST(Diff, TellsWhereEachExpertComesFrom) {
  // Ranks 0 and 1 are node 0, ranks 2 and 3 node 1; two slots each.
  const Topology topology = uniform(4, 2, 8);
  const Placement before = one_layer(6, {0, 1, 2, 3, 4, 5, 4, 5});
  const Placement after = one_layer(6, {1, 0, 2, 0, 4, 3, -1, 5});
  const LayerDiff diff = diff_of(before, after, topology);
  const std::vector<SlotChange> expected{
      {SlotId{0}, ExpertId{0}, ExpertId{1}, ChangeKind::local_copy, false},
      {SlotId{1}, ExpertId{1}, ExpertId{0}, ChangeKind::local_copy, false},
      {SlotId{3}, ExpertId{3}, ExpertId{0}, ChangeKind::intra_node, true},
      {SlotId{5}, ExpertId{5}, ExpertId{3}, ChangeKind::inter_node, true},
      {SlotId{6}, ExpertId{4}, no_expert, ChangeKind::vacated, false},
  };
  EXPECT_EQ(diff.changes, expected);
  EXPECT_EQ(diff.counts, (ChangeCounts{2, 1, 1, 0, 2, 1}));
}

TEST(Diff, ReceivesAnExpertOncePerRank) {
  const Topology topology = uniform(2, 1, 8);
  const Placement before = one_layer(4, {0, 1, 2, 3, 0, 1, 2, 2});
  const Placement after = one_layer(4, {0, 1, 2, 3, 3, 3, 2, 2});
  const ChangeCounts counts = diff_of(before, after, topology).counts;
  EXPECT_EQ(counts.moves, 2);
  EXPECT_EQ(counts.intra_node, 1);
  EXPECT_EQ(counts.local_copies, 1);
}

// vllm-project/vllm#41204: the only replica lay on the dead rank, and the plan named it as a source.
TEST(Diff, NamesNoDeadRankAsASource) {
  const Placement before = one_layer(3, {0, 1, 2, 2});
  const Topology topology =
      Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}, {NodeId{0}, 1}}).value();
  const Placement after = one_layer(3, {0, 1, -1, 2});
  EXPECT_TRUE(diff_of(before, after, topology).changes.empty());
  const Topology all_lost =
      Topology::make({{NodeId{0}, 2}, {NodeId{0}, 1, 1.0, false}, {NodeId{0}, 1}}).value();
  const LayerDiff diff = diff_of(one_layer(3, {0, 1, 2, 1}), one_layer(3, {0, 1, -1, 2}), all_lost);
  ASSERT_EQ(diff.changes.size(), 1U);
  EXPECT_EQ(diff.changes[0].kind, ChangeKind::from_source);
  EXPECT_EQ(diff.counts.from_source, 1);
}

TEST(Diff, ComparesRanksByNumberWhenThereAreMoreOfThem) {
  const Placement before = one_layer(4, {0, 1, 2, 3});
  const Placement after = one_layer(4, {0, 1, 2, 2, 3, 0});
  const LayerDiff diff = diff_of(before, uniform(2, 1, 4), after, uniform(3, 1, 6));
  // Rank 1 has 2 in both slots now, and rank 2 is new.
  EXPECT_EQ(diff.counts.moves, 2);
  EXPECT_EQ(diff.counts.local_copies, 1);
}

TEST(Diff, RefusesWhatCannotBeCompared) {
  const Placement a = one_layer(2, {0, 1});
  const auto topology = uniform(2, 1, 2);
  const auto other_experts = diff_placements(a, topology, one_layer(1, {0, 0}), topology);
  ASSERT_FALSE(other_experts.has_value());
  EXPECT_EQ(other_experts.error().message, "placements differ in shape: 1 layers of 2 experts and 1 of 1");
  const auto other_slots = diff_placements(a, uniform(3, 1, 3), a, topology);
  ASSERT_FALSE(other_slots.has_value());
  EXPECT_EQ(other_slots.error().message, "old placement: 2 slots, but its topology has 3");
}

}  // namespace
}  // namespace trimtab::test
