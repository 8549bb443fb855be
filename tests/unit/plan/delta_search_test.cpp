// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_search.hpp"

#include <gtest/gtest.h>

#include "support/placements.hpp"

namespace trimtab::test {
namespace {

class DeltaSearchTest : public ::testing::Test {
 protected:
  /// Two ranks of three slots in one node unless said.
  DeltaSearch make(std::vector<double> loads, const Placement& before, Penalty penalty) {
    loads_ = std::move(loads);
    holders_.emplace(before.layer(LayerId{0}), before.num_experts(), topology_);
    return DeltaSearch({loads_, topology_, *holders_, home_}, before.layer(LayerId{0}), penalty);
  }

  Topology topology_ = uniform(2, 1, 6);
  std::vector<NodeId> home_;
  std::vector<double> loads_;
  std::optional<Holders> holders_;
};

TEST_F(DeltaSearchTest, DoesNothingWhereEveryRankIsWithinTheLimit) {
  auto search = make({4, 4, 4, 4, 4, 4}, one_layer(6, {0, 1, 2, 3, 4, 5}), {12.0});
  EXPECT_FALSE(search.step());
  EXPECT_EQ(search.moves(), 0);
}

TEST_F(DeltaSearchTest, PrefersOneMoveThatDoesWhatTwoWould) {
  // Rank 0: 6 + 2 + 1, rank 1: 1 + 1 + 1. Expert 2 has two copies; that on rank 1 makes room for expert 0.
  auto search = make({6, 2, 2, 1, 1}, one_layer(5, {0, 1, 2, 3, 4, 2}), {7.0});
  ASSERT_TRUE(search.step());
  EXPECT_EQ(search.moves(), 1);
  EXPECT_EQ(search.packing().copies(ExpertId{0}), 2);
  EXPECT_DOUBLE_EQ(search.max_pressure(), 7.0);
}

TEST_F(DeltaSearchTest, ExchangesWhereNothingIsRedundant) {
  auto search = make({5, 4, 3, 1, 1, 1}, one_layer(6, {0, 1, 2, 3, 4, 5}), {8.0});
  ASSERT_TRUE(search.step());
  EXPECT_EQ(search.moves(), 2);
  EXPECT_DOUBLE_EQ(search.max_pressure(), 8.0);
  EXPECT_FALSE(search.step());
}

TEST_F(DeltaSearchTest, FillsAVacantSlotWithOneMove) {
  auto search = make({8, 1, 1, 1}, one_layer(4, {0, 1, -1, 2, 3, -1}), {6.0});
  ASSERT_TRUE(search.step());
  EXPECT_EQ(search.moves(), 1);
  EXPECT_DOUBLE_EQ(search.max_pressure(), 6.0);
}

TEST_F(DeltaSearchTest, DoesNotPutAnExpertTwiceOnARank) {
  auto search = make({10, 1, 1}, one_layer(3, {0, 1, 2, 0, 1, 2}), {5.0});
  while (search.step()) continue;
  for (Rank rank : ids<Rank>(2)) {
    std::vector<bool> seen(3, false);
    for (SlotId slot : topology_.slots_of(rank)) {
      const auto expert = search.packing().expert_at(slot).index();
      EXPECT_FALSE(seen[expert]);
      seen[expert] = true;
    }
  }
}

TEST_F(DeltaSearchTest, KeepsExpertsInTheirNode) {
  topology_ = uniform(2, 2, 6);
  home_ = {NodeId{0}, NodeId{0}, NodeId{0}, NodeId{1}, NodeId{1}, NodeId{1}};
  auto search = make({5, 4, 3, 1, 1, 1}, one_layer(6, {0, 1, 2, 3, 4, 5}), {8.0});
  EXPECT_FALSE(search.step());
}

TEST_F(DeltaSearchTest, ReportsEditsThatLeadToWhatItHolds) {
  const Placement before = random_placement(1, 6, 4, 5);
  auto search = make({9, 5, 2, 1}, before, {9.0, true, 0.0});
  while (search.step()) continue;
  std::vector<ExpertId> row(before.layer(LayerId{0}).begin(), before.layer(LayerId{0}).end());
  for (const Edit& edit : search.edits()) row[edit.slot.index()] = edit.expert;
  const Row held = search.packing().row();
  EXPECT_TRUE(std::equal(row.begin(), row.end(), held.begin()));
}

TEST_F(DeltaSearchTest, TakesOnCountsWithTheFewestMoves) {
  auto search = make({6, 5, 2, 1}, one_layer(4, {0, 1, 2, 3, 2, 3}), {7.0});
  const std::vector<std::int32_t> counts{2, 2, 1, 1};
  while (search.step_towards(counts)) continue;
  for (ExpertId e : ids<ExpertId>(4)) EXPECT_EQ(search.packing().copies(e), counts[e.index()]);
  EXPECT_EQ(search.moves(), 2);
}

}  // namespace
}  // namespace trimtab::test
