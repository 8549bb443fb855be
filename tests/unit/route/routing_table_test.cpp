// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/routing_table.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

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

/// Shares in parts of whole_share, by slot.
std::vector<std::pair<std::int32_t, std::uint64_t>> shares_of(const RoutingTable& table, LayerId layer,
                                                              ExpertId expert) {
  std::vector<std::pair<std::int32_t, std::uint64_t>> shares;
  const auto replicas = table.replicas(layer, expert);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    shares.emplace_back(replicas[i].value(), RoutingTable::share_at(table.share_begins(layer, expert), i));
  }
  return shares;
}

using Shares = std::vector<std::pair<std::int32_t, std::uint64_t>>;
constexpr std::uint64_t whole = RoutingTable::whole_share;

RoutingTable split_table(const std::vector<std::int32_t>& map, std::vector<std::int64_t> assignments,
                         std::initializer_list<Rank> dead = {}) {
  const auto slots = static_cast<std::int32_t>(map.size());
  return RoutingTable::compile(make_placement(2, {map}), make_topology(slots, slots, dead), identity,
                               Split::make(1, slots, std::move(assignments)).value())
      .value();
}

TEST(RoutingTable, SharesAreThoseOfTheSplit) {
  const RoutingTable table = split_table({0, 1, 0, 0, 1}, {1, 7, 2, 1, 0});
  EXPECT_EQ(shares_of(table, LayerId{0}, ExpertId{0}),
            (Shares{{0, whole / 4}, {2, whole / 2}, {3, whole / 4}}));
  EXPECT_EQ(shares_of(table, LayerId{0}, ExpertId{1}), (Shares{{1, whole}}));
}

TEST(RoutingTable, SharesAreEvenWithoutASplitAndWithoutAssignments) {
  const Shares even{{0, whole / 2}, {2, whole / 2}};
  EXPECT_EQ(shares_of(split_table({0, 1, 0}, {0, 3, 0}), LayerId{0}, ExpertId{0}), even);
  EXPECT_EQ(shares_of(make_table(make_placement(2, {{0, 1, 0}}), 1), LayerId{0}, ExpertId{0}), even);
}

TEST(RoutingTable, ShareOfADeadSlotFallsToTheOthers) {
  const RoutingTable some = split_table({0, 1, 0, 0, 1}, {2, 7, 3, 3, 0}, {Rank{0}});
  EXPECT_EQ(shares_of(some, LayerId{0}, ExpertId{0}), (Shares{{2, whole / 2}, {3, whole / 2}}));
  const RoutingTable all = split_table({0, 1, 0, 0, 1}, {2, 7, 0, 0, 0}, {Rank{0}});
  EXPECT_EQ(shares_of(all, LayerId{0}, ExpertId{0}), (Shares{{2, whole / 2}, {3, whole / 2}}));
}

TEST(RoutingTable, ShareOfAVacantSlotIsDropped) {
  EXPECT_EQ(shares_of(split_table({0, 1, -1, 0}, {1, 1, 9, 3}), LayerId{0}, ExpertId{0}),
            (Shares{{0, whole / 4}, {3, whole / 4 * 3}}));
}

// Below half a token over 2^31 tokens, for any numbers that a split can hold.
TEST(RoutingTable, SharesAreLessThanOnePartFromTheRatio) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = 2 + random() % 9;
    std::vector<std::int64_t> assignments(count);
    for (auto& a : assignments) a = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    const RoutingTable table =
        RoutingTable::compile(make_placement(1, {std::vector<std::int32_t>(count, 0)}),
                              make_topology(1, static_cast<std::int32_t>(count)), identity,
                              Split::make(1, static_cast<std::int32_t>(count), assignments).value())
            .value();
    std::vector<std::uint64_t> parts(count);
    std::uint64_t sum_of_parts = 0;
    for (const auto& [slot, share] : shares_of(table, LayerId{0}, ExpertId{0})) {
      EXPECT_GT(share, 0U);
      parts[static_cast<std::size_t>(slot)] = share;
      sum_of_parts += share;
    }
    EXPECT_EQ(sum_of_parts, whole);
    long double total = 0;
    for (const std::int64_t a : assignments) total += static_cast<long double>(a);
    if (total == 0) continue;
    for (std::size_t s = 0; s < count; ++s) {
      const long double exact =
          static_cast<long double>(assignments[s]) / total * static_cast<long double>(whole);
      EXPECT_LE(std::abs(static_cast<long double>(parts[s]) - exact), 1.0L + 1e-6L);
    }
  }
}

TEST(RoutingTable, RefusesASplitOfAnotherShape) {
  const auto table = RoutingTable::compile(two_layers(), make_topology(2, 6), identity,
                                           Split::make(2, 5, std::vector<std::int64_t>(10)).value());
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Errc::invalid_argument);
  EXPECT_EQ(table.error().message, "split of 2 layers x 5 slots for a placement of 2 x 6");
}

TEST(RoutingTable, RefusesSourceLoadsThatMakeNoSense) {
  const auto refusal = [](std::vector<std::int64_t> loads) {
    const auto table = RoutingTable::compile(two_layers(), make_topology(2, 6), identity,
                                             TableOptions{.source_loads = loads});
    return table ? "accepted" : table.error().message;
  };
  EXPECT_EQ(refusal({1, 2}), "accepted");
  EXPECT_EQ(refusal({0, 0}), "accepted");
  EXPECT_EQ(refusal({1}), "1 source loads for 2 ranks");
  EXPECT_EQ(refusal({1, -2}), "rank 1: source load -2 is below 0");
  EXPECT_EQ(refusal({std::int64_t{1} << 61, std::int64_t{1} << 61}),
            "source loads up to rank 1 sum to more than 4611686018427387904");
}

// Never [ranks][experts]: twice the slots are at most twice the bytes, and more ranks cost next to nothing.
TEST(RoutingTable, MemoryIsLinearInSlotsAndExperts) {
  const auto bytes = [](std::int32_t ranks, std::int32_t slots, std::int32_t experts) {
    return RoutingTable::compile(Placement::identity(4, slots, experts).value(),
                                 Topology::make_uniform(ranks, 1, slots).value(), identity)
        .value()
        .bytes();
  };
  const std::size_t base = bytes(16, 1024, 512);
  EXPECT_LE(base, 4 * (1024 * 8 + 512 * 4) + 1024 * 4 + 16 * 40 + 512);
  EXPECT_LE(bytes(16, 2048, 512), 2 * base);
  EXPECT_LE(bytes(1024, 1024, 512) - base, 1024U * 40U);
}

TEST(RoutingTable, FingerprintsTellTablesApart) {
  const auto compile = [](std::vector<std::int64_t> assignments, TableIdentity id, ModelRole model) {
    return RoutingTable::compile(make_placement(2, {{0, 1, 0}}), make_topology(3, 3), id,
                                 Split::make(1, 3, std::move(assignments)).value(), {.model = model})
        .value()
        .fingerprint();
  };
  const std::uint64_t base = compile({1, 1, 1}, identity, ModelRole::target);
  EXPECT_EQ(compile({1, 1, 1}, identity, ModelRole::target), base);
  EXPECT_NE(compile({1, 1, 2}, identity, ModelRole::target), base);
  EXPECT_NE(compile({1, 1, 1}, {Epoch{7}, 4}, ModelRole::target), base);
  EXPECT_NE(compile({1, 1, 1}, {Epoch{8}, 3}, ModelRole::target), base);
  EXPECT_NE(compile({1, 1, 1}, identity, ModelRole::draft), base);
}

TEST(RoutingTable, RestoresItsOwnParts) {
  const RoutingTable table = RoutingTable::compile(two_layers(), make_topology(2, 6), identity).value();
  const auto [first, slots, begins] = table.view();
  const TableParts parts{
      2, 3, {first.begin(), first.end()}, {slots.begin(), slots.end()}, {begins.begin(), begins.end()}};
  EXPECT_EQ(RoutingTable::restore(parts, make_topology(2, 6), identity).value().fingerprint(),
            table.fingerprint());
}

TEST(RoutingTable, RestoreNamesWhatIsWrong) {
  const auto refusal = [](TableParts parts) {
    const auto table = RoutingTable::restore(std::move(parts), make_topology(2, 4, {Rank{1}}), identity);
    if (table) return std::string("accepted");
    EXPECT_EQ(table.error().code, Errc::corrupt);
    return table.error().message;
  };
  const SlotId zero{0};
  const SlotId one{1};
  EXPECT_EQ(refusal({1, 2, {0, 1, 2}, {zero, one}, {0, 0}}), "accepted");
  EXPECT_EQ(refusal({1, 0, {0}, {}, {}}), "routing table: 1 layers x 0 experts, 1 bounds, 0 slots, 0 shares");
  EXPECT_EQ(refusal({1, 2, {0, 1, 3}, {zero, one}, {0, 0}}), "routing table: bounds 0 to 3 for 2 slots");
  EXPECT_EQ(refusal({1, 2, {0, 2, 2}, {zero, one}, {0, 9}}),
            "routing table: layer 0, expert 1: slots at 2 to 2");
  EXPECT_EQ(refusal({1, 2, {0, 7, 2}, {zero, one}, {0, 9}}),
            "routing table: layer 0, expert 0: slots at 0 to 7");
  EXPECT_EQ(refusal({1, 2, {0, 1, 2}, {zero, SlotId{4}}, {0, 0}}),
            "routing table: layer 0, expert 1: slot 4 is not in 0..3");
  EXPECT_EQ(refusal({1, 2, {0, 1, 2}, {zero, SlotId{2}}, {0, 0}}),
            "routing table: layer 0, expert 1: slot 2 is on no live rank");
  EXPECT_EQ(refusal({1, 2, {0, 1, 2}, {zero, zero}, {0, 0}}),
            "routing table: layer 0, expert 1: slot 0 serves already");
  EXPECT_EQ(refusal({1, 1, {0, 2}, {one, zero}, {0, 9}}),
            "routing table: layer 0, expert 0: slot 0 with a share from 9 on");
  EXPECT_EQ(refusal({1, 1, {0, 2}, {zero, one}, {0, 0}}),
            "routing table: layer 0, expert 0: slot 1 with a share from 0 on");
  EXPECT_EQ(refusal({1, 1, {0, 1}, {zero}, {3}}),
            "routing table: layer 0, expert 0: slot 0 with a share from 3 on");
}

}  // namespace
}  // namespace trimtab::test
