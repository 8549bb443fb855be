// SPDX-License-Identifier: Apache-2.0
#include "plan/swap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;

/// A packing that owns its loads and topology.
struct Problem {
  Problem(std::vector<double> l, std::vector<RankInfo> ranks, std::vector<std::int32_t> row)
      : loads(std::move(l)), topology(Topology::make(std::move(ranks)).value()), packing(make(row)) {
    region.ranks = usable_ranks(topology);
  }
  [[nodiscard]] Packing make(const std::vector<std::int32_t>& row) const {
    std::vector<ExpertId> experts;
    for (std::int32_t e : row) experts.push_back(ExpertId{e});
    return {loads, topology, experts};
  }
  [[nodiscard]] std::vector<std::int32_t> on(std::int32_t rank) const {
    std::vector<std::int32_t> held;
    for (SlotId slot : topology.slots_of(Rank{rank})) held.push_back(packing.expert_at(slot).value());
    std::sort(held.begin(), held.end());
    return held;
  }

  std::vector<double> loads;
  Topology topology;
  Region region;
  Packing packing;
};

TEST(ImproveBySwaps, LevelsTwoRanks) {
  Problem p({8, 6, 5, 3}, {{NodeId{0}, 2}, {NodeId{0}, 2}}, {0, 1, 2, 3});
  improve_by_swaps(p.packing, p.region, 11.0, 10);
  EXPECT_DOUBLE_EQ(p.packing.pressure(Rank{0}), 11.0);
  EXPECT_DOUBLE_EQ(p.packing.pressure(Rank{1}), 11.0);
}

TEST(ImproveBySwaps, WeighsRanksBySpeed) {
  // 4 + 4 on a rank of speed 1, 1 + 1 on a rank of speed 4: one swap brings the fuller from 8 to 5.
  Problem p({4, 4, 1, 1}, {{NodeId{0}, 2, 1.0}, {NodeId{0}, 2, 4.0}}, {0, 1, 2, 3});
  improve_by_swaps(p.packing, p.region, 0.0, 1);
  EXPECT_DOUBLE_EQ(p.packing.pressure(Rank{0}), 5.0);
  improve_by_swaps(p.packing, p.region, 0.0, 10);
  EXPECT_DOUBLE_EQ(p.packing.pressure(Rank{0}), 2.0);
  EXPECT_DOUBLE_EQ(p.packing.pressure(Rank{1}), 2.0);
}

TEST(ImproveBySwaps, MakesNoSecondCopyOnARank) {
  // Levelling would need expert 1 on rank 1, which has it.
  Problem p({9, 8, 2}, {{NodeId{0}, 2}, {NodeId{0}, 2}}, {0, 1, 1, 2});
  improve_by_swaps(p.packing, p.region, 0.0, 10);
  for (std::int32_t rank : {0, 1}) EXPECT_THAT(p.on(rank), ::testing::Contains(1).Times(1));
}

TEST(ImproveBySwaps, MovesAReplicaToAVacantSlot) {
  Problem p({5, 4, 2}, {{NodeId{0}, 2}, {NodeId{0}, 2}}, {0, 1, 2, -1});
  improve_by_swaps(p.packing, p.region, 0.0, 10);
  EXPECT_THAT(p.on(0), ElementsAre(1, 2));
  EXPECT_THAT(p.on(1), ElementsAre(-1, 0));
}

TEST(ImproveBySwaps, StopsAfterTheGivenNumber) {
  Problem p({8, 6, 5, 3}, {{NodeId{0}, 2}, {NodeId{0}, 2}}, {0, 1, 2, 3});
  improve_by_swaps(p.packing, p.region, 0.0, 0);
  EXPECT_THAT(p.on(0), ElementsAre(0, 1));
}

TEST(ImproveBySwaps, LeavesRanksOutsideTheRegionAlone) {
  Problem p({9, 1, 1, 1, 1, 1}, {{NodeId{0}, 2}, {NodeId{0}, 2}, {NodeId{0}, 2}}, {0, 1, 2, 3, 4, 5});
  p.region.ranks.pop_back();
  improve_by_swaps(p.packing, p.region, 0.0, 10);
  EXPECT_THAT(p.on(2), ElementsAre(4, 5));
}

}  // namespace
}  // namespace trimtab::test
