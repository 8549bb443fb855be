// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/assert.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <algorithm>
#include <random>
#include <vector>

namespace trimtab::test {

/// One layer written out by hand: the expert of each slot, -1 where vacant.
inline Placement one_layer(std::int32_t num_experts, const std::vector<std::int32_t>& slots) {
  std::vector<ExpertId> map;
  for (std::int32_t expert : slots) map.push_back(ExpertId{expert});
  const auto num_slots = static_cast<std::int32_t>(map.size());
  auto placement = Placement::make(1, num_slots, num_experts, std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return std::move(*placement);
}

/// Equal ranks.
inline Topology uniform(std::int32_t num_ranks, std::int32_t num_nodes, std::int32_t num_slots) {
  auto topology = Topology::make_uniform(num_ranks, num_nodes, num_slots);
  TRIMTAB_ASSERT(topology.has_value());
  return std::move(*topology);
}

/// A valid placement drawn at random: every expert once, the other slots any expert, shuffled.
inline Placement random_placement(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                                  std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<ExpertId> map;
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    std::vector<ExpertId> row;
    for (std::int32_t s = 0; s < num_slots; ++s) {
      const auto any = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(num_experts));
      row.push_back(ExpertId{s < num_experts ? s : any});
    }
    for (std::size_t i = row.size(); i > 1; --i) std::swap(row[i - 1], row[random() % i]);
    map.insert(map.end(), row.begin(), row.end());
  }
  auto placement = Placement::make(num_layers, num_slots, num_experts, std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return std::move(*placement);
}

}  // namespace trimtab::test
