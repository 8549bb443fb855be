// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/align.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

Placement placement_of(std::initializer_list<std::int32_t> map, std::int32_t num_experts) {
  std::vector<ExpertId> experts;
  for (std::int32_t e : map) experts.push_back(ExpertId{e});
  const auto num_slots = static_cast<std::int32_t>(experts.size());
  return Placement::make(1, num_slots, num_experts, std::move(experts)).value();
}

TEST(AlignSlots, LeavesAnExpertThatStaysInItsSlot) {
  const auto topology = Topology::make_uniform(2, 1, 6).value();
  const auto current = placement_of({0, 1, 2, 3, 4, 5}, 6);
  const auto next = placement_of({2, 5, 0, 1, 3, 4}, 6);
  EXPECT_EQ(align_slots(current, next, topology), placement_of({0, 5, 2, 3, 4, 1}, 6));
}

TEST(AlignSlots, ChangesNothingWhereOnlyTheOrderDiffers) {
  const auto topology = Topology::make_uniform(2, 1, 6).value();
  const auto current = placement_of({2, 1, 0, 5, 4, 3}, 6);
  EXPECT_EQ(align_slots(current, placement_of({0, 1, 2, 3, 4, 5}, 6), topology), current);
}

TEST(AlignSlots, KeepsVacantSlotsVacantInPlace) {
  const auto topology = Topology::make_uniform(1, 1, 4).value();
  const auto current = placement_of({0, -1, 1, 2}, 3);
  EXPECT_EQ(align_slots(current, placement_of({0, 1, 2, -1}, 3), topology), current);
}

TEST(AlignSlots, HandlesSecondCopiesOnARank) {
  const auto topology = Topology::make_uniform(1, 1, 4).value();
  const auto current = placement_of({0, 1, 0, 0}, 2);
  const auto aligned = align_slots(current, placement_of({1, 1, 0, 0}, 2), topology);
  EXPECT_EQ(aligned, placement_of({0, 1, 0, 1}, 2));
}

TEST(AlignSlots, LeavesEveryLayerAsBalanced) {
  const auto topology = Topology::make_uniform(4, 1, 20).value();
  const auto loads = lognormal_loads({3, 16}, 1.0, 1);
  const auto current = plan_of(lognormal_loads({3, 16}, 1.0, 2), topology).placement;
  const auto next = plan_of(loads, topology).placement;
  const auto aligned = align_slots(current, next, topology);
  for (LayerId layer : ids<LayerId>(3)) {
    EXPECT_DOUBLE_EQ(imbalance_of(loads, aligned, layer, topology),
                     imbalance_of(loads, next, layer, topology));
  }
}

}  // namespace
}  // namespace trimtab::test
