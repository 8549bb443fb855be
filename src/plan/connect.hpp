// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

#include <cstdint>
#include <span>

namespace trimtab {

struct ConnectOptions {
  /// Load / speed that no rank may exceed, unless some rank of the row did before; then that.
  double max_pressure = 0.0;
  /// Experts change ranks only inside their node, and each node's ranks are to be connected for themselves.
  bool within_nodes = false;
};

struct Connection {
  std::int32_t components_before = 0;  ///< Over all nodes when `within_nodes`: at best one each.
  std::int32_t components = 0;
  double pressure_before = 0.0;  ///< Largest load / speed, even shares.
  double pressure = 0.0;
  std::int32_t swaps = 0;
};

/// Swaps experts between ranks so that the replica graph (trimtab/plan/replica_graph.hpp) falls into as few
/// components as the copies allow, best one, and so that copies of replicated experts are spread evenly over
/// the ranks. How many copies each expert has stays as it is, and so does which slots are vacant; no expert
/// comes to lie twice on a rank.
/// Even shares stay as even as `options` asks.
///
/// Pure and deterministic; a fixed number of steps, no clock. Memory is O(slots + experts).
/// @param row  expert of each slot of one layer; every expert has a live slot. Slots of dead ranks are not
///             looked at.
Connection connect_replicas(LayerLoads loads, const Topology& topology, const ConnectOptions& options,
                            std::span<ExpertId> row);

}  // namespace trimtab
