// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/routing_table.hpp>

#include <utility>

namespace trimtab {

RoutingTable::RoutingTable(std::int32_t num_layers, std::int32_t num_experts, TableIdentity identity)
    : num_layers_(num_layers), num_experts_(num_experts), identity_(identity) {
  first_replica_.reserve(static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_experts) + 1);
  first_replica_.push_back(0);
}

void RoutingTable::add_row(std::span<const SlotId> replicas, const Topology& topology) {
  for (SlotId slot : replicas) {
    if (!topology.is_alive(slot)) continue;
    slots_.push_back(slot);
    after_.push_back(static_cast<std::uint32_t>(slots_.size()));
  }
  after_.back() = first_replica_.back();
  first_replica_.push_back(static_cast<std::uint32_t>(slots_.size()));
}

Result<RoutingTable> RoutingTable::compile(const Placement& placement, const Topology& topology,
                                           TableIdentity identity) {
  if (Status live = check_live(placement, topology); !live) return failure(std::move(live));
  RoutingTable table(placement.num_layers(), placement.num_experts(), identity);
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(placement.num_experts())) {
      table.add_row(placement.replicas(layer, expert), topology);
    }
  }
  return table;
}

}  // namespace trimtab
