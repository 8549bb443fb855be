// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/routing_table.hpp>

#include <utility>

namespace trimtab {

RoutingTable::RoutingTable(std::int32_t num_layers, std::int32_t num_experts, TableIdentity identity)
    : num_layers_(num_layers), num_experts_(num_experts), identity_(identity) {
  first_replica_.reserve(static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_experts) + 1);
  first_replica_.push_back(0);
}

Result<RoutingTable> RoutingTable::compile(const Placement& placement, const Topology& topology,
                                           TableIdentity identity) {
  if (Status live = check_live(placement, topology); !live) return failure(std::move(live));
  RoutingTable table(placement.num_layers(), placement.num_experts(), identity);
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(placement.num_experts())) {
      for (SlotId slot : placement.replicas(layer, expert)) {
        if (topology.is_alive(slot)) table.slots_.push_back(slot);
      }
      table.first_replica_.push_back(static_cast<std::uint32_t>(table.slots_.size()));
    }
  }
  return table;
}

}  // namespace trimtab
