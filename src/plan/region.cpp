// SPDX-License-Identifier: Apache-2.0
#include "plan/region.hpp"

#include <algorithm>

namespace trimtab {

std::vector<Rank> usable_ranks(const Topology& topology) {
  std::vector<Rank> usable;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (topology.is_alive(rank) && topology.rank(rank).num_slots > 0) usable.push_back(rank);
  }
  return usable;
}

std::vector<Rank> usable_ranks(const Topology& topology, NodeId node) {
  std::vector<Rank> usable = usable_ranks(topology);
  std::erase_if(usable, [&](Rank rank) { return topology.node_of(rank) != node; });
  return usable;
}

double speed_of(std::span<const Rank> ranks, const Topology& topology) {
  double speed = 0.0;
  for (Rank rank : ranks) speed += topology.rank(rank).speed;
  return speed;
}

double load_of(std::span<const ExpertId> experts, LayerLoads loads) {
  double load = 0.0;
  for (ExpertId expert : experts) load += loads[expert.index()];
  return load;
}

std::int64_t distinct_slots_of(std::span<const Rank> ranks, const Topology& topology,
                               std::size_t num_experts) {
  std::int64_t slots = 0;
  for (Rank rank : ranks) {
    slots += std::min(std::int64_t{topology.rank(rank).num_slots}, static_cast<std::int64_t>(num_experts));
  }
  return slots;
}

}  // namespace trimtab
