// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstdint>
#include <memory>

namespace trimtab::moe {

/// Bytes of messages, by where they went. Without what a back-end adds to them.
struct Traffic {
  std::int64_t within_nodes = 0;  ///< Between ranks of one node.
  std::int64_t between_nodes = 0;
};

/// What service and migrations sent: on one rank, or over all of them.
struct ServiceTraffic {
  Traffic forward;    ///< Of both arms: tokens to experts, and their answers.
  Traffic migration;  ///< Bundles, whether their step was committed or not, and the engine's own messages.
};

/// The end of a channel, which adds what is posted for sending to `traffic`. Borrows `traffic` and
/// `topology`.
[[nodiscard]] std::unique_ptr<Transport> count_traffic(std::unique_ptr<Transport> channel,
                                                       const Topology& topology, Traffic& traffic);

}  // namespace trimtab::moe
