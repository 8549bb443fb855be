// SPDX-License-Identifier: Apache-2.0
#include "moe/traffic.hpp"

#include <trimtab/transport/decorator.hpp>

#include <utility>

namespace trimtab::moe {
namespace {

class CountingTransport final : public TransportDecorator {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, const Topology& topology, Traffic& traffic)
      : TransportDecorator(std::move(inner)), topology_(topology), traffic_(traffic) {}

  Result<Ticket> post(std::span<const Leg> legs) override {
    Result<Ticket> ticket = inner().post(legs);
    if (!ticket) return ticket;
    for (const Leg& leg : legs) {
      if (leg.side == Side::send) bytes_to(leg.peer) += static_cast<std::int64_t>(leg.memory.size());
    }
    return ticket;
  }

 private:
  std::int64_t& bytes_to(Rank peer) {
    return topology_.node_of(peer) == topology_.node_of(rank()) ? traffic_.within_nodes
                                                                : traffic_.between_nodes;
  }

  const Topology& topology_;
  Traffic& traffic_;
};

}  // namespace

std::unique_ptr<Transport> count_traffic(std::unique_ptr<Transport> channel, const Topology& topology,
                                         Traffic& traffic) {
  return std::make_unique<CountingTransport>(std::move(channel), topology, traffic);
}

}  // namespace trimtab::moe
