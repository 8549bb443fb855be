// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <initializer_list>
#include <utility>
#include <vector>

namespace trimtab::test {

/// Equal ranks on one node, all alive but those named.
inline Topology make_topology(std::int32_t num_ranks, std::int32_t num_slots,
                              std::initializer_list<Rank> dead = {}) {
  const Topology alive = Topology::make_uniform(num_ranks, 1, num_slots).value();
  std::vector<RankInfo> ranks;
  for (Rank rank : ids<Rank>(num_ranks)) ranks.push_back(alive.rank(rank));
  for (Rank rank : dead) ranks[rank.index()].is_alive = false;
  return Topology::make(std::move(ranks)).value();
}

/// One row of experts by slot for each layer; -1 is vacant.
inline Placement make_placement(std::int32_t num_experts,
                                const std::vector<std::vector<std::int32_t>>& layers) {
  std::vector<ExpertId> map;
  for (const auto& layer : layers) {
    for (std::int32_t expert : layer) map.push_back(ExpertId{expert});
  }
  return Placement::make(static_cast<std::int32_t>(layers.size()),
                         static_cast<std::int32_t>(layers[0].size()), num_experts, std::move(map))
      .value();
}

/// Every slot lives on one rank.
inline RoutingTable make_table(const Placement& placement, std::uint64_t epoch,
                               std::uint32_t split_version = 0) {
  return RoutingTable::compile(placement, make_topology(1, placement.num_slots()),
                               {.epoch = Epoch{epoch}, .split_version = split_version})
      .value();
}

inline RoutingTable make_table(const Placement& placement, std::uint64_t epoch, const Split& split) {
  return RoutingTable::compile(placement, make_topology(1, placement.num_slots()), {.epoch = Epoch{epoch}},
                               split)
      .value();
}

}  // namespace trimtab::test
