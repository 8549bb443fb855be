// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/core/imbalance.hpp>

#include <algorithm>
#include <cstdint>

namespace trimtab {

Imbalance compute_imbalance(std::span<const double> rank_loads, const Topology& topology) {
  TRIMTAB_ASSERT(rank_loads.size() == static_cast<std::size_t>(topology.num_ranks()));
  double max = 0.0;
  double total = 0.0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (!topology.is_alive(rank)) continue;
    max = std::max(max, rank_loads[rank.index()] / topology.rank(rank).speed);
    total += rank_loads[rank.index()];
  }
  return {max, total / topology.total_speed()};
}

std::vector<double> compute_rank_loads(std::span<const double> expert_loads, std::span<const ExpertId> layer,
                                       const Topology& topology) {
  TRIMTAB_ASSERT(layer.size() == static_cast<std::size_t>(topology.num_slots()));
  const auto carries = [&](SlotId slot) {
    return layer[slot.index()] != no_expert && topology.is_alive(slot);
  };
  std::vector<std::int32_t> num_replicas(expert_loads.size(), 0);
  for (SlotId slot : ids<SlotId>(layer.size())) {
    if (carries(slot)) ++num_replicas[layer[slot.index()].index()];
  }
  std::vector<double> rank_loads(static_cast<std::size_t>(topology.num_ranks()), 0.0);
  for (SlotId slot : ids<SlotId>(layer.size())) {
    if (!carries(slot)) continue;
    const std::size_t expert = layer[slot.index()].index();
    rank_loads[topology.rank_of(slot).index()] += expert_loads[expert] / num_replicas[expert];
  }
  return rank_loads;
}

}  // namespace trimtab
