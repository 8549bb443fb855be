// SPDX-License-Identifier: Apache-2.0
#include "plan/split_flow.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/exact_imbalance.hpp"
#include "plan/random.hpp"
#include "support/exact_split.hpp"
#include "support/generated_loads.hpp"

namespace trimtab::test {
namespace {

constexpr LayerId first_layer{0};

Region whole(std::int32_t num_experts, const Topology& topology) {
  Region region{{}, usable_ranks(topology)};
  for (ExpertId e : ids<ExpertId>(num_experts)) region.experts.push_back(e);
  return region;
}

std::vector<ExpertId> row_of(std::initializer_list<int> experts) {
  std::vector<ExpertId> row;
  for (int e : experts) row.push_back(ExpertId{e});
  return row;
}

/// Every expert once, then copies of any.
std::vector<ExpertId> any_row(std::int32_t num_experts, const Topology& topology, Random& random) {
  std::vector<ExpertId> row;
  for (SlotId slot : ids<SlotId>(topology.num_slots())) {
    const auto any = static_cast<ExpertId::rep>(random.below(static_cast<std::size_t>(num_experts)));
    row.push_back(ExpertId{slot.value() < num_experts ? slot.value() : any});
  }
  return row;
}

TEST(SplitFlow, FindsTheOptimumOfAHandMadeRow) {
  // Expert 0 on both ranks, 1 and 2 on one each; mean 9. Only expert 0 can move.
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const auto row = row_of({0, 1, 0, 2});
  for (const auto& [loads, optimum] : {std::pair(std::vector<double>{10, 6, 2}, 1.0),
                                       std::pair(std::vector<double>{2, 12, 4}, 12.0 / 9.0)}) {
    const Packing packing(loads, topology, row);
    const Region region = whole(3, topology);
    EXPECT_DOUBLE_EQ(SplitFlow(loads, packing, region).find_optimum(), optimum);
  }
}

TEST(SplitFlow, SaysWhoHoldsTheDeficitUp) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const std::vector<double> loads{2, 12, 4};
  const Packing packing(loads, topology, row_of({0, 1, 0, 2}));
  const Region region = whole(3, topology);
  SplitFlow flow(loads, packing, region);
  flow.reset(1.0);
  EXPECT_DOUBLE_EQ(flow.deficit(), 12.0 / 9.0 - 1.0);
  ASSERT_EQ(flow.tight_experts().size(), 1U);
  EXPECT_EQ(flow.tight_experts()[0], ExpertId{1});
  EXPECT_TRUE(flow.is_tight(Rank{0}));
  EXPECT_FALSE(flow.is_tight(Rank{1}));
  EXPECT_DOUBLE_EQ(flow.room(Rank{1}), 1.0 - 6.0 / 9.0);
}

TEST(SplitFlow, AgreesWithOtherSolvers) {
  Random random;
  const auto uniform = Topology::make_uniform(8, 1, 40).value();
  const auto mixed =
      Topology::make(
          {{NodeId{0}, 9, 2.0}, {NodeId{0}, 7, 0.5}, {NodeId{0}, 12}, {NodeId{0}, 0}, {NodeId{0}, 10, 3.7}})
          .value();
  for (const Topology& topology : {uniform, mixed}) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const auto loads = lognormal_loads({1, 32}, 1.2, seed);
      const auto row = any_row(32, topology, random);
      const Packing packing(loads.layer(first_layer), topology, row);
      const Region region = whole(32, topology);
      const double found = SplitFlow(loads.layer(first_layer), packing, region).find_optimum() *
                           topology.total_speed() / speed_of(region.ranks, topology);
      EXPECT_NEAR(found, best_split_imbalance(loads.layer(first_layer), row, topology), 1e-7) << seed;
      EXPECT_NEAR(found, exact_imbalance(loads.layer(first_layer), row, topology), 1e-9) << seed;
    }
  }
}

// The flow that follows a row is as good as one made for it anew, after thousands of changes.
TEST(SplitFlow, StaysMaximalWhileTheRowChanges) {
  Random random;
  const auto topology = Topology::make_uniform(8, 1, 48).value();
  const auto loads = lognormal_loads({1, 32}, 1.0, 5);
  const Region region = whole(32, topology);
  Packing packing(loads.layer(first_layer), topology, any_row(32, topology, random));
  SplitFlow flow(loads.layer(first_layer), packing, region);
  flow.reset(1.02);
  for (int i = 0; i < 4000; ++i) {
    const SlotId slot{static_cast<SlotId::rep>(random.below(48))};
    const SlotId other{static_cast<SlotId::rep>(random.below(48))};
    const bool may_put = packing.copies(packing.expert_at(slot)) > 1 && i % 2 == 0;
    const ExpertId before = packing.expert_at(slot);
    const std::vector<Rank> tight(flow.tight_ranks().begin(), flow.tight_ranks().end());
    flow.save();
    flow.release(slot);
    if (!may_put) flow.release(other);
    may_put ? packing.put(slot, packing.expert_at(other)) : packing.swap(slot, other);
    flow.settle();
    if (i % 3 == 0) {  // and one that was taken back is the flow it was
      may_put ? packing.put(slot, before) : packing.swap(slot, other);
      flow.restore();
      for (Rank rank : ids<Rank>(8)) {
        ASSERT_EQ(flow.is_tight(rank), std::find(tight.begin(), tight.end(), rank) != tight.end()) << i;
      }
    }
    if (i % 20 != 0) continue;
    SplitFlow anew(loads.layer(first_layer), packing, region);
    anew.reset(1.02);
    ASSERT_NEAR(flow.deficit(), anew.deficit(), 1e-9) << i;
  }
}

TEST(SplitFlow, TakesNoLoad) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const std::vector<double> loads(3, 0.0);
  const Packing packing(loads, topology, row_of({0, 1, 0, 2}));
  const Region region = whole(3, topology);
  SplitFlow flow(loads, packing, region);
  flow.reset(1.0);
  EXPECT_EQ(flow.deficit(), 0.0);
}

}  // namespace
}  // namespace trimtab::test
