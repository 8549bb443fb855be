// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/engine.hpp>

#include "migrate/step_engine.hpp"

#include <fmt/format.h>

namespace trimtab {

Status check_parts(const Transport& channel, const ExpertStore& store, const Topology& topology,
                   const Placement& placement) {
  if (channel.num_ranks() != topology.num_ranks()) {
    return failure(Errc::invalid_argument, fmt::format("channel of {} ranks, topology of {}",
                                                       channel.num_ranks(), topology.num_ranks()));
  }
  if (!topology.is_alive(channel.rank())) {
    return failure(Errc::invalid_argument,
                   fmt::format("rank {} is dead in its own topology", channel.rank().value()));
  }
  const IdRange<SlotId> slots = topology.slots_of(channel.rank());
  if (store.slots().first() != slots.first() || store.slots().size() != slots.size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("rank {}: the store has slots {}+{}, the topology {}+{}",
                               channel.rank().value(), store.slots().first().value(), store.slots().size(),
                               slots.first().value(), slots.size()));
  }
  if (store.num_layers() != placement.num_layers()) {
    return failure(Errc::invalid_argument, fmt::format("store of {} layers, placement of {}",
                                                       store.num_layers(), placement.num_layers()));
  }
  return check_live(placement, topology);
}

Result<std::unique_ptr<Engine>> Engine::make(const EngineOptions& options, std::unique_ptr<Transport> channel,
                                             ExpertStore& store, TablePublisher& publisher, Topology topology,
                                             Placement placement, const Clock& clock) {
  return make_step_engine<StepEngine>(options, std::move(channel), store, publisher, std::move(topology),
                                      std::move(placement), clock);
}

}  // namespace trimtab
