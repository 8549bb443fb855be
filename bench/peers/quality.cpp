// SPDX-License-Identifier: Apache-2.0
#include "quality.hpp"

#include <trimtab/core/imbalance.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

namespace trimtab::bench {
namespace {

using Held = std::vector<ExpertId>;

/// Experts of one rank, ascending.
Held held_on(std::span<const ExpertId> row, IdRange<SlotId> slots) {
  const auto part = row.subspan(slots.first().index(), slots.size());
  Held held(part.begin(), part.end());
  std::sort(held.begin(), held.end());
  return held;
}

Held identity_on(IdRange<SlotId> slots, std::int32_t num_experts) {
  Held held;
  for (SlotId slot : slots) held.push_back(ExpertId{slot.value() % num_experts});
  std::sort(held.begin(), held.end());
  return held;
}

std::size_t count_new(const Held& before, const Held& after) {
  Held brought;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(brought));
  return brought.size();
}

std::size_t count_repeated(Held held) {
  const auto distinct = std::unique(held.begin(), held.end()) - held.begin();
  return held.size() - static_cast<std::size_t>(distinct);
}

}  // namespace

Quality quality_of(const Placement& placement, const LoadMatrix& loads, const Topology& topology) {
  Quality quality;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const auto row = placement.layer(layer);
    const auto rank_loads = compute_rank_loads(loads.layer(layer), row, topology);
    quality.imbalance += compute_imbalance(rank_loads, topology).max_over_mean() / loads.num_layers();
    for (Rank rank : ids<Rank>(topology.num_ranks())) {
      const Held held = held_on(row, topology.slots_of(rank));
      const Held before = identity_on(topology.slots_of(rank), loads.num_experts());
      quality.duplicates += static_cast<double>(count_repeated(held));
      quality.moves += static_cast<double>(count_new(before, held)) / loads.num_layers();
    }
  }
  return quality;
}

}  // namespace trimtab::bench
