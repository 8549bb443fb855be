// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>

#include "unit/route/tables.hpp"
#include "unit/weights/allocation_count.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace trimtab::test {
namespace {

constexpr std::int32_t num_experts = 16;
constexpr std::int32_t num_slots = 40;

RoutingTable random_table(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> map;
  for (std::int32_t s = 0; s < num_slots; ++s) {
    map.push_back(s < num_experts ? s : static_cast<std::int32_t>(random() % num_experts));
  }
  std::vector<std::int64_t> assignments;
  for (std::int32_t s = 0; s < num_slots; ++s) assignments.push_back(1 + random() % 999);
  return make_table(make_placement(num_experts, {map}), seed,
                    Split::make(1, num_slots, std::move(assignments)).value());
}

/// As many of each expert as its slots are to take.
std::vector<ExpertId> experts_of(const RoutingTable& table, const std::vector<std::int64_t>& assignments) {
  std::vector<ExpertId> experts;
  for (ExpertId expert : ids<ExpertId>(num_experts)) {
    for (SlotId slot : table.replicas(LayerId{0}, expert)) {
      experts.insert(experts.end(), static_cast<std::size_t>(assignments[slot.index()]), expert);
    }
  }
  return experts;
}

class RouterAllocation : public testing::TestWithParam<DispatchMode> {};

TEST_P(RouterAllocation, NoneOnceWarm) {
  const std::array tables{random_table(1), random_table(2), random_table(3)};
  const std::vector<std::int64_t> assignments(num_slots, 8192);  // Enough to be cut into pieces.
  SerialExecutor executor;
  Batch batch{.executor = &executor};
  if (GetParam() == DispatchMode::exact_batch) batch.assignments = assignments;
  Router router(1, num_experts, Rank{0}, {.mode = GetParam()});
  std::vector<SlotId> slots;
  std::size_t before = 0;
  // Three rounds of one table, then one of each other table, which has as many slots.
  for (int round = 0; round < 5; ++round) {
    const RoutingTable& table = tables[static_cast<std::size_t>(std::max(0, round - 2))];
    const std::vector<ExpertId> experts = experts_of(table, assignments);
    slots.resize(experts.size());
    // A finder of nearest replicas is made for each table and layer.
    const bool is_warm = round > 0 && (round < 3 || GetParam() != DispatchMode::nearest);
    before = num_allocations();
    ASSERT_TRUE(router.dispatch(table, LayerId{0}, experts, slots, batch));
    const std::size_t made = num_allocations() - before;
    EXPECT_TRUE(made == 0 || !is_warm) << made << " in round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(AllModes, RouterAllocation,
                         testing::Values(DispatchMode::nearest, DispatchMode::rank_invariant,
                                         DispatchMode::quota, DispatchMode::exact_batch));

}  // namespace
}  // namespace trimtab::test
