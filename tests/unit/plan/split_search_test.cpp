// SPDX-License-Identifier: Apache-2.0
#include "plan/split_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/exact_imbalance.hpp"
#include "support/generated_loads.hpp"

namespace trimtab::test {
namespace {

constexpr LayerId first_layer{0};

Region whole(std::int32_t num_experts, const Topology& topology) {
  Region region{{}, usable_ranks(topology)};
  for (ExpertId e : ids<ExpertId>(num_experts)) region.experts.push_back(e);
  return region;
}

std::vector<ExpertId> searched(const LoadMatrix& loads, const Topology& topology, Row start,
                               std::size_t steps) {
  const double mean = loads.total(first_layer) / topology.total_speed();
  LoadView view{Packing(loads.layer(first_layer), topology, start), mean, 1.0};
  search_for_split(std::span(&view, 1), whole(loads.num_experts(), topology),
                   {.good_enough = 1.0 + 3e-4, .max_steps = steps, .rounds = 4});
  return {view.packing.row().begin(), view.packing.row().end()};
}

TEST(SearchForSplit, LevelsSteepLoadsFromTheIdentity) {
  const auto topology = Topology::make_uniform(16, 1, 144).value();
  const auto loads = zipf_loads({1, 128}, 1.0, 3);
  const auto start = identity_row(128, topology, false);
  EXPECT_GT(exact_imbalance(loads.layer(first_layer), start, topology), 1.5);
  const auto row = searched(loads, topology, start, 20 * 144);
  EXPECT_LE(exact_imbalance(loads.layer(first_layer), row, topology), 1.0 + 3e-4 + 1e-9);
  EXPECT_TRUE(is_live(row, 128, topology));
  EXPECT_EQ(count_duplicates(row, topology), 0);
}

TEST(SearchForSplit, EndsNeverAboveItsStart) {
  const auto topology = Topology::make_uniform(24, 1, 48).value();
  const auto start = identity_row(40, topology, false);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    // so steep that less can be left over while the fullest rank gets fuller
    const auto loads = lognormal_loads({1, 40}, 1.0 + static_cast<double>(seed % 4) / 2.0, seed);
    for (const std::size_t steps : {4U, 40U, 100U, 500U}) {
      const auto row = searched(loads, topology, start, steps);
      EXPECT_LE(exact_imbalance(loads.layer(first_layer), row, topology),
                exact_imbalance(loads.layer(first_layer), start, topology) * (1.0 + 1e-9));
      EXPECT_TRUE(is_live(row, 40, topology));
      EXPECT_EQ(count_duplicates(row, topology), 0);
    }
  }
}

TEST(SearchForSplit, LeavesRanksOutsideTheRegionAlone) {
  const auto topology = Topology::make_uniform(4, 2, 20).value();
  const auto loads = zipf_loads({1, 16}, 1.0, 1);
  const auto first_node = usable_ranks(topology, NodeId{0});
  std::vector<ExpertId> start;
  for (SlotId slot : ids<SlotId>(20)) {
    const std::int32_t node = topology.node_of(topology.rank_of(slot)).value();
    start.push_back(ExpertId{node * 8 + (slot.value() - node * 10) % 8});
  }
  Region region{{}, first_node};
  for (ExpertId e : ids<ExpertId>(8)) region.experts.push_back(e);
  LoadView view{Packing(loads.layer(first_layer), topology, start), 1e-9, 1.0};
  search_for_split(std::span(&view, 1), region, {.max_steps = 2000, .rounds = 2});
  const Row row = view.packing.row();
  EXPECT_TRUE(std::equal(row.begin() + 10, row.end(), start.begin() + 10));
  EXPECT_FALSE(std::equal(row.begin(), row.begin() + 10, start.begin()));
  for (const ExpertId e : row.first(10)) EXPECT_LT(e.value(), 8);
}

}  // namespace
}  // namespace trimtab::test
