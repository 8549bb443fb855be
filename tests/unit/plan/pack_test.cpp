// SPDX-License-Identifier: Apache-2.0
#include "plan/pack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/repair.hpp"

namespace trimtab::test {
namespace {

std::vector<ExpertId> experts(std::initializer_list<std::int32_t> values) {
  std::vector<ExpertId> made;
  for (std::int32_t value : values) made.push_back(ExpertId{value});
  return made;
}

/// A small packing problem that owns all its parts.
struct Problem {
  Problem(std::vector<double> l, std::vector<std::int32_t> c, std::vector<RankInfo> ranks)
      : loads(std::move(l)),
        counts(std::move(c)),
        topology(Topology::make(std::move(ranks)).value()),
        contents(loads, counts, topology) {
    for (ExpertId e : ids<ExpertId>(loads.size())) region.experts.push_back(e);
    region.ranks = usable_ranks(topology);
  }
  [[nodiscard]] std::vector<ExpertId> on(std::int32_t rank) const {
    const auto held = contents.on(Rank{rank});
    return {held.begin(), held.end()};
  }

  std::vector<double> loads;
  std::vector<std::int32_t> counts;
  Topology topology;
  Region region;
  RankContents contents;
};

TEST(RankContents, AddsUpShares) {
  Problem p({30, 50, 8}, {1, 2, 1}, {{NodeId{0}, 3, 2.0}});
  p.contents.add(Rank{0}, ExpertId{2});
  p.contents.add(Rank{0}, ExpertId{0});
  p.contents.add(Rank{0}, ExpertId{1});
  EXPECT_EQ(p.on(0), experts({2, 0, 1}));
  EXPECT_DOUBLE_EQ(p.contents.pressure(Rank{0}), (30.0 + 25.0 + 8.0) / 2.0);
  EXPECT_FALSE(p.contents.has_room(Rank{0}));
  p.contents.remove(Rank{0}, ExpertId{0});
  EXPECT_FALSE(p.contents.holds(Rank{0}, ExpertId{0}));
  EXPECT_DOUBLE_EQ(p.contents.pressure(Rank{0}), 33.0 / 2.0);
}

TEST(PackHeaviestFirst, FillsTheLightestRankAndGivesTiesToTheLower) {
  Problem p({5, 4, 3, 2}, {1, 1, 1, 1}, {{NodeId{0}, 2}, {NodeId{0}, 2}});
  pack_heaviest_first(p.contents, p.region, p.counts);
  EXPECT_EQ(p.on(0), experts({0, 3}));
  EXPECT_EQ(p.on(1), experts({1, 2}));
}

TEST(PackHeaviestFirst, WeighsRanksBySpeed) {
  Problem p({6, 6, 6, 6, 6, 6}, {1, 1, 1, 1, 1, 1}, {{NodeId{0}, 5, 2.0}, {NodeId{0}, 5, 1.0}});
  pack_heaviest_first(p.contents, p.region, p.counts);
  EXPECT_EQ(p.on(0).size(), 4U);
  EXPECT_EQ(p.on(1).size(), 2U);
}

// The last expert finds room only where it lies already; the full rank has to pass one on.
TEST(PackHeaviestFirst, RepairsADeadEndByExchange) {
  Problem p({10, 9, 4}, {1, 1, 2}, {{NodeId{0}, 1}, {NodeId{0}, 3}});
  pack_heaviest_first(p.contents, p.region, p.counts);
  EXPECT_TRUE(p.contents.holds(Rank{0}, ExpertId{2}));
  EXPECT_EQ(p.on(1), experts({1, 2, 0}));
}

TEST(MakeRoomByChain, GoesThroughSeveralRanksWhereOneExchangeIsNotEnough) {
  // Room is on rank 2 only, which holds 0 and 1. Rank 0 holds 1; rank 1 holds 0 and 2: so 2 must come from
  // rank 1, and 1 move from rank 0 to rank 1.
  Problem p({8, 8, 8}, {3, 2, 1}, {{NodeId{0}, 1}, {NodeId{0}, 2}, {NodeId{0}, 3}});
  p.contents.add(Rank{0}, ExpertId{1});
  p.contents.add(Rank{1}, ExpertId{0});
  p.contents.add(Rank{1}, ExpertId{2});
  p.contents.add(Rank{2}, ExpertId{0});
  p.contents.add(Rank{2}, ExpertId{1});
  make_room_by_chain(p.contents, p.region, ExpertId{0});
  EXPECT_EQ(p.on(0), experts({0}));
  EXPECT_EQ(p.on(1), experts({0, 1}));
  EXPECT_EQ(p.on(2), experts({0, 1, 2}));
}

}  // namespace
}  // namespace trimtab::test
