// SPDX-License-Identifier: Apache-2.0
#include "transport/check_legs.hpp"

#include <fmt/format.h>

namespace trimtab {

Status check_legs(const Transport& transport, std::span<const Leg> legs) {
  const Capabilities& limits = transport.capabilities();
  for (std::size_t i = 0; i < legs.size(); ++i) {
    const Leg& leg = legs[i];
    if (!transport.can_reach(leg.peer)) {
      return failure(Errc::invalid_argument,
                     fmt::format("leg {}: rank {} of {} cannot reach rank {}", i, transport.rank().value(),
                                 transport.num_ranks(), leg.peer.value()));
    }
    if (leg.tag.value() > limits.max_tag) {
      return failure(Errc::invalid_argument, fmt::format("leg {}: tag {} > {}, the largest of transport {}",
                                                         i, leg.tag.value(), limits.max_tag, limits.name));
    }
  }
  return {};
}

Error message_too_large(const Leg& receive, std::size_t message_bytes) {
  return {Errc::invalid_argument,
          fmt::format("message of {} bytes from rank {} under tag {} > {} bytes of its receive",
                      message_bytes, receive.peer.value(), receive.tag.value(), receive.memory.size())};
}

}  // namespace trimtab
