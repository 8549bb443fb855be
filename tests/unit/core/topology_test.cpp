// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/topology.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trimtab::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::int32_t> slot_counts(const Topology& topology) {
  std::vector<std::int32_t> counts;
  for (Rank rank : ids<Rank>(topology.num_ranks())) counts.push_back(topology.rank(rank).num_slots);
  return counts;
}

void expect_refused(std::vector<RankInfo> ranks, const char* message) {
  const auto topology = Topology::make(std::move(ranks));
  ASSERT_FALSE(topology.has_value());
  EXPECT_EQ(topology.error().code, Errc::invalid_argument);
  EXPECT_THAT(topology.error().message, HasSubstr(message));
}

TEST(Topology, NumbersSlotsRankByRank) {
  const auto topology = Topology::make({{NodeId{0}, 3}, {NodeId{0}, 0}, {NodeId{1}, 2}}).value();
  EXPECT_EQ(topology.num_slots(), 5);
  EXPECT_EQ(topology.num_nodes(), 2);
  EXPECT_EQ(topology.rank_of(SlotId{2}), Rank{0});
  EXPECT_EQ(topology.rank_of(SlotId{3}), Rank{2});
  EXPECT_EQ(topology.slots_of(Rank{1}).size(), 0U);
  EXPECT_EQ(topology.slots_of(Rank{2}).first(), SlotId{3});
}

TEST(Topology, CountsOnlyLiveRanksAsLive) {
  const auto topology = Topology::make({{NodeId{0}, 4, 2.0}, {NodeId{0}, 4, 1.0, false}}).value();
  EXPECT_EQ(topology.num_slots(), 8);
  EXPECT_EQ(topology.num_live_slots(), 4);
  EXPECT_DOUBLE_EQ(topology.total_speed(), 2.0);
  EXPECT_FALSE(topology.is_alive(SlotId{4}));
  EXPECT_TRUE(topology.is_alive(SlotId{3}));
}

TEST(Topology, UniformGivesFirstRanksOneSlotMore) {
  const auto topology = Topology::make_uniform(4, 2, 10).value();
  EXPECT_EQ(slot_counts(topology), (std::vector<std::int32_t>{3, 3, 2, 2}));
  EXPECT_EQ(topology.node_of(Rank{1}), NodeId{0});
  EXPECT_EQ(topology.node_of(Rank{2}), NodeId{1});
}

TEST(Topology, UniformSpreadsRanksOverNodesThatDoNotDivideThem) {
  const auto topology = Topology::make_uniform(5, 3, 5).value();
  std::vector<std::int32_t> nodes;
  for (Rank rank : ids<Rank>(5)) nodes.push_back(topology.node_of(rank).value());
  EXPECT_EQ(nodes, (std::vector<std::int32_t>{0, 0, 1, 1, 2}));
}

TEST(Topology, RefusesBadRanks) {
  expect_refused({{NodeId{0}, -1}}, "rank 0: slot count -1");
  expect_refused({{NodeId{0}, 1}, {NodeId{0}, 1, 0.0}}, "rank 1: speed 0");
  expect_refused({{NodeId{0}, 1, -2.0}}, "speed -2");
  expect_refused({{NodeId{0}, 1, std::nan("")}}, "speed nan");
  expect_refused({{NodeId{0}, 1, std::numeric_limits<double>::infinity()}}, "speed inf");
  expect_refused({{NodeId{-1}, 1}}, "node -1");
  expect_refused({{NodeId{0}, 1}, {NodeId{2}, 1}}, "rank 1: node 2");
  expect_refused({{NodeId{0}, 1, 1.0, false}}, "no live rank");
  expect_refused({}, "no live rank");
}

TEST(Topology, RefusesMoreSlotsThanCanBeNumbered) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  expect_refused({{NodeId{0}, most}, {NodeId{0}, most}}, "slots per layer");
}

TEST(Topology, RefusesBadUniformShape) {
  EXPECT_FALSE(Topology::make_uniform(0, 1, 4).has_value());
  EXPECT_FALSE(Topology::make_uniform(4, 0, 4).has_value());
  EXPECT_FALSE(Topology::make_uniform(4, 5, 4).has_value());
  EXPECT_FALSE(Topology::make_uniform(4, 1, -1).has_value());
}

}  // namespace
}  // namespace trimtab::test
