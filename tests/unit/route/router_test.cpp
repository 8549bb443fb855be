// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace trimtab::test {
namespace {

using Experts = std::vector<ExpertId>;
using Slots = std::vector<SlotId>;

constexpr LayerId layer0{0};

// R1: what was mapped once cannot be mapped again, for a slot is no expert.
template <class Id>
concept can_dispatch = requires(Router router, const RoutingTable& table, std::span<const Id> ids,
                                std::span<SlotId> slots) {
  router.dispatch(table, LayerId{0}, ids, slots);
};
static_assert(can_dispatch<ExpertId>);
static_assert(!can_dispatch<SlotId>);
static_assert(!can_dispatch<std::int32_t>);
template <class Id>
concept can_dispatch_in_place = requires(Router router, const RoutingTable& table, std::span<Id> ids) {
  router.dispatch_in_place(table, LayerId{0}, ids);
};
static_assert(can_dispatch_in_place<ExpertId>);
static_assert(!can_dispatch_in_place<SlotId>);

// Experts 0..3 with 4, 1, 3 and 2 replicas, in two layers that differ.
Placement replicated() {
  return make_placement(4, {{0, 1, 2, 3, 0, 2, 0, 3, 2, 0}, {2, 0, 0, 3, 1, 0, 3, 2, 0, 2}});
}

Experts random_experts(std::size_t count, std::int32_t num_experts, unsigned seed) {
  std::mt19937 random(seed);
  Experts experts;
  for (std::size_t i = 0; i < count; ++i) {
    experts.push_back(ExpertId{static_cast<std::int32_t>(random() % static_cast<unsigned>(num_experts))});
  }
  return experts;
}

Slots dispatch(Router& router, const RoutingTable& table, LayerId layer, const Experts& experts) {
  Slots slots(experts.size());
  const Status status = router.dispatch(table, layer, experts, slots);
  EXPECT_TRUE(status) << status.error().message;
  return slots;
}

TEST(Router, SendsEveryAssignmentToASlotOfItsExpert) {
  const Placement placement = replicated();
  Router router(2, 4, Rank{3});
  for (LayerId layer : ids<LayerId>(2)) {
    const Experts experts = random_experts(500, 4, 1);
    const Slots slots = dispatch(router, make_table(placement, 1), layer, experts);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      EXPECT_EQ(placement.expert_at(layer, slots[i]), experts[i]);
    }
  }
}

TEST(Router, MeetsEvenSharesWithinOneOverAnyPrefix) {
  const RoutingTable table = make_table(replicated(), 1);
  for (Rank rank : ids<Rank>(5)) {
    Router router(2, 4, rank);
    std::map<SlotId, int> count;
    for (ExpertId expert : random_experts(400, 4, 2)) {
      ++count[dispatch(router, table, layer0, {expert})[0]];
      const auto replicas = table.replicas(layer0, expert);
      const auto [least, most] = std::ranges::minmax(replicas, {}, [&](SlotId slot) { return count[slot]; });
      ASSERT_LE(count[most] - count[least], 1) << "rank " << rank.value() << ", expert " << expert.value();
    }
  }
}

TEST(Router, DoesNotDependOnHowTheBatchIsCut) {
  const RoutingTable table = make_table(replicated(), 1);
  const Experts experts = random_experts(300, 4, 3);
  Router whole(2, 4, Rank{1});
  Router cut(2, 4, Rank{1});
  Slots slots;
  for (std::size_t i = 0; i < experts.size(); i += 7) {
    const auto end = std::min(experts.size(), i + 7);
    const Slots part = dispatch(cut, table, layer0,
                                {experts.begin() + static_cast<std::ptrdiff_t>(i),
                                 experts.begin() + static_cast<std::ptrdiff_t>(end)});
    slots.insert(slots.end(), part.begin(), part.end());
  }
  EXPECT_EQ(slots, dispatch(whole, table, layer0, experts));
}

TEST(Router, RanksBeginEvenlySpreadOverTheReplicas) {
  const RoutingTable table = make_table(replicated(), 1);
  for (ExpertId expert : ids<ExpertId>(4)) {
    std::map<SlotId, int> begins;
    for (Rank rank : ids<Rank>(12)) {
      Router router(2, 4, rank);
      ++begins[dispatch(router, table, layer0, {expert})[0]];
    }
    const auto num_replicas = table.replicas(layer0, expert).size();
    ASSERT_EQ(begins.size(), num_replicas);
    for (const auto& [slot, count] : begins) EXPECT_EQ(count, static_cast<int>(12 / num_replicas));
  }
}

TEST(Router, ExpertsAndLayersDoNotAllBeginAtTheLowestReplica) {
  const RoutingTable table = make_table(Placement::identity(16, 64, 32).value(), 1);
  Router router(16, 32, Rank{0});
  int lowest = 0;
  for (LayerId layer : ids<LayerId>(16)) {
    for (ExpertId expert : ids<ExpertId>(32)) {
      lowest += dispatch(router, table, layer, {expert})[0] == table.replicas(layer, expert)[0] ? 1 : 0;
    }
  }
  EXPECT_GT(lowest, 512 / 3);
  EXPECT_LT(lowest, 512 * 2 / 3);
}

// vllm-project/vllm#38128, sgl-project/sglang#28188: padded rows took part in counting and mapping.
TEST(Router, PaddingStaysPaddingAndMovesNoCounter) {
  const RoutingTable table = make_table(replicated(), 1);
  Router plain(2, 4, Rank{0});
  Router padded(2, 4, Rank{0});
  const Experts experts = random_experts(100, 4, 4);
  Experts with_padding;
  for (ExpertId expert : experts) with_padding.insert(with_padding.end(), {no_expert, expert, no_expert});
  Slots slots = dispatch(padded, table, layer0, with_padding);
  EXPECT_EQ(std::ranges::count(slots, no_slot), 200);
  for (std::size_t i = 0; i < slots.size(); ++i) EXPECT_EQ(slots[i] == no_slot, with_padding[i] == no_expert);
  std::erase(slots, no_slot);
  EXPECT_EQ(slots, dispatch(plain, table, layer0, experts));
}

class RouterBadExpert : public testing::TestWithParam<std::int32_t> {};

TEST_P(RouterBadExpert, IsNamedAndLeavesTheCounters) {
  const RoutingTable table = make_table(replicated(), 1);
  Router router(2, 4, Rank{2});
  Router twin(2, 4, Rank{2});
  const Experts before = random_experts(33, 4, 5);
  EXPECT_EQ(dispatch(router, table, LayerId{1}, before), dispatch(twin, table, LayerId{1}, before));

  Experts bad = random_experts(40, 4, 6);
  bad[29] = ExpertId{GetParam()};
  bad[35] = ExpertId{99};  // Only the first is named.
  Slots slots(bad.size());
  const Status status = router.dispatch(table, LayerId{1}, bad, slots);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::invalid_argument);
  EXPECT_EQ(status.error().message,
            "layer 1, token 29, column 0: expert " + std::to_string(GetParam()) + " is not in 0..3");
  EXPECT_EQ(dispatch(router, table, LayerId{1}, before), dispatch(twin, table, LayerId{1}, before));
}

// sgl-project/sglang#22525: the column of a fused shared expert carries the id behind the last routed one
// (4).
INSTANTIATE_TEST_SUITE_P(All, RouterBadExpert,
                         testing::Values(4, 5, -2, std::numeric_limits<std::int32_t>::max(),
                                         std::numeric_limits<std::int32_t>::min()));

TEST(Router, BadBatchUnderANewTableLeavesTheCountersOfTheOldOne) {
  const RoutingTable old_table = make_table(replicated(), 1);
  const RoutingTable new_table = make_table(replicated(), 2);
  Router router(2, 4, Rank{0});
  Router twin(2, 4, Rank{0});
  const Experts experts = random_experts(31, 4, 7);
  dispatch(router, old_table, layer0, experts);
  dispatch(twin, old_table, layer0, experts);
  Slots slots(1);
  ASSERT_FALSE(router.dispatch(new_table, layer0, Experts{ExpertId{4}}, slots));
  EXPECT_EQ(dispatch(router, old_table, layer0, experts), dispatch(twin, old_table, layer0, experts));
}

TEST(Router, CountersStartAnewWithEachTableIdentity) {
  const Experts experts = random_experts(101, 4, 8);
  Router router(2, 4, Rank{1});
  for (const auto& [epoch, split_version] : {std::pair{1U, 0U}, {1U, 1U}, {2U, 0U}}) {
    const RoutingTable table = make_table(replicated(), epoch, split_version);
    Router fresh(2, 4, Rank{1});
    EXPECT_EQ(dispatch(router, table, layer0, experts), dispatch(fresh, table, layer0, experts));
  }
}

TEST(Router, NeverChoosesASlotOfADeadRank) {
  const Placement placement = make_placement(2, {{0, 1, 0, 1, 1, 0}});
  const Topology topology = make_topology(3, 6, {Rank{1}});
  const RoutingTable table = RoutingTable::compile(placement, topology, {.epoch = Epoch{1}}).value();
  Router router(1, 2, Rank{0});
  const Slots slots = dispatch(router, table, layer0, random_experts(64, 2, 9));
  EXPECT_TRUE(std::ranges::all_of(slots, [&](SlotId slot) { return topology.is_alive(slot); }));
  EXPECT_EQ(std::set(slots.begin(), slots.end()).size(), 4U);
}

// Two tables must not bear one identity; should it happen all the same, no look-up leaves an expert's slots.
TEST(Router, StaysInsideAnExpertsSlotsWhenIdentitiesClash) {
  const Placement wide = make_placement(2, {{0, 0, 0, 0, 1}});
  const Placement narrow = make_placement(2, {{1, 0, 1, 1, 1}});
  Router router(1, 2, Rank{0});
  for (int i = 0; i < 8; ++i) {
    dispatch(router, make_table(wide, 1), layer0, {ExpertId{0}, ExpertId{1}});
    const Slots slots = dispatch(router, make_table(narrow, 1), layer0, {ExpertId{0}, ExpertId{1}});
    EXPECT_EQ(narrow.expert_at(layer0, slots[0]), ExpertId{0});
    EXPECT_EQ(narrow.expert_at(layer0, slots[1]), ExpertId{1});
  }
}

std::string refusal(const RoutingTable& table, LayerId layer, std::size_t num_experts,
                    std::size_t num_slots) {
  Router router(2, 4, Rank{0});
  Slots slots(num_slots);
  const Status status = router.dispatch(table, layer, Experts(num_experts, ExpertId{0}), slots);
  return status ? "accepted" : status.error().message;
}

TEST(Router, RefusesShapesThatDoNotFit) {
  const RoutingTable table = make_table(replicated(), 1);
  EXPECT_EQ(refusal(table, LayerId{1}, 8, 8), "accepted");
  EXPECT_EQ(refusal(table, LayerId{2}, 8, 8), "layer 2 is not in 0..1");
  EXPECT_EQ(refusal(table, LayerId{-1}, 8, 8), "layer -1 is not in 0..1");
  EXPECT_EQ(refusal(table, LayerId{1}, 8, 7), "layer 1: 8 experts for 7 slots");
  EXPECT_EQ(refusal(make_table(make_placement(4, {{0, 1, 2, 3}}), 1), layer0, 8, 8),
            "routing table of 1 layers x 4 experts, router of 2 x 4");
  EXPECT_EQ(refusal(make_table(make_placement(2, {{0, 1, 1}, {1, 1, 0}}), 1), layer0, 8, 8),
            "routing table of 2 layers x 2 experts, router of 2 x 4");
}

TEST(Router, AcceptsAnEmptyBatch) {
  EXPECT_EQ(refusal(make_table(replicated(), 1), layer0, 0, 0), "accepted");
}

}  // namespace
}  // namespace trimtab::test
