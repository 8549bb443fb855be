// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/routing_table.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trimtab::test {
namespace {

using Slots = std::vector<SlotId>;

Slots replicas_of(const RoutingTable& table, LayerId layer, ExpertId expert) {
  const auto replicas = table.replicas(layer, expert);
  return {replicas.begin(), replicas.end()};
}

constexpr TableIdentity identity{.epoch = Epoch{7}, .split_version = 3};

// Two ranks of three slots; one slot is vacant, experts are replicated differently in each layer.
Placement two_layers() { return make_placement(3, {{0, 1, 2, 0, -1, 1}, {2, 2, 1, 2, 0, 0}}); }

TEST(RoutingTable, ListsEveryLiveSlotOfEachExpertInOrder) {
  const RoutingTable table = RoutingTable::compile(two_layers(), make_topology(2, 6), identity).value();
  EXPECT_EQ(replicas_of(table, LayerId{0}, ExpertId{0}), (Slots{SlotId{0}, SlotId{3}}));
  EXPECT_EQ(replicas_of(table, LayerId{0}, ExpertId{1}), (Slots{SlotId{1}, SlotId{5}}));
  EXPECT_EQ(replicas_of(table, LayerId{0}, ExpertId{2}), (Slots{SlotId{2}}));
  EXPECT_EQ(replicas_of(table, LayerId{1}, ExpertId{0}), (Slots{SlotId{4}, SlotId{5}}));
  EXPECT_EQ(replicas_of(table, LayerId{1}, ExpertId{1}), (Slots{SlotId{2}}));
  EXPECT_EQ(replicas_of(table, LayerId{1}, ExpertId{2}), (Slots{SlotId{0}, SlotId{1}, SlotId{3}}));
}

TEST(RoutingTable, CarriesItsShapeAndIdentity) {
  const RoutingTable table = RoutingTable::compile(two_layers(), make_topology(2, 6), identity).value();
  EXPECT_EQ(table.num_layers(), 2);
  EXPECT_EQ(table.num_experts(), 3);
  EXPECT_EQ(table.identity(), identity);
}

TEST(RoutingTable, LeavesOutSlotsOfDeadRanks) {
  const Placement placement = make_placement(3, {{0, 1, 2, 2, 1, 0}});
  const RoutingTable table =
      RoutingTable::compile(placement, make_topology(2, 6, {Rank{1}}), identity).value();
  for (ExpertId expert : ids<ExpertId>(3)) {
    EXPECT_EQ(replicas_of(table, LayerId{0}, expert), (Slots{SlotId{expert.value()}}));
  }
}

TEST(RoutingTable, RefusesAnExpertWithoutALiveSlot) {
  const auto table = RoutingTable::compile(two_layers(), make_topology(2, 6, {Rank{0}}), identity);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Errc::infeasible);
  EXPECT_EQ(table.error().message, "layer 0: expert 2 has no slot on a live rank");
}

TEST(RoutingTable, RefusesATopologyOfAnotherSlotCount) {
  const auto table = RoutingTable::compile(two_layers(), make_topology(2, 8), identity);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Errc::invalid_argument);
}

// vllm-project/vllm-ascend#8864: logical and physical expert counts were confused; they differ here.
TEST(RoutingTable, AgreesWithThePlacementInEveryLayer) {
  const Placement placement = Placement::identity(5, 13, 9).value();
  const RoutingTable table = make_table(placement, 1);
  for (LayerId layer : ids<LayerId>(5)) {
    for (ExpertId expert : ids<ExpertId>(9)) {
      const auto expected = placement.replicas(layer, expert);
      EXPECT_TRUE(std::ranges::equal(table.replicas(layer, expert), expected));
    }
  }
}

}  // namespace
}  // namespace trimtab::test
