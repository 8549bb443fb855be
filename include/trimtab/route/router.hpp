// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trimtab {

/// Turns logical expert ids into physical slots, once (R1).
///
/// Mode: even shares. The n-th assignment to an expert since the table was published goes to its replica (n +
/// offset) mod replicas, where the offset depends on rank, layer and expert: over any prefix each replica's
/// share is met to within one assignment per rank (R4), and ranks do not all begin with the same replica.
/// Threads: one Router per forward thread; it keeps the counters. Independent of other Routers.
class Router {
 public:
  /// Both counts are those of the tables to come, and at least 1.
  Router(std::int32_t num_layers, std::int32_t num_experts, Rank rank);

  /// Fills `slots[i]` for each `experts[i]`; `no_expert` stays `no_slot` (R2).
  /// @return `invalid_argument` naming layer, index, value and limit for an expert out of range, or the sizes
  ///         when they differ; `slots` is then unspecified and the counters are as before.
  Status dispatch(const RoutingTable& table, LayerId layer, std::span<const ExpertId> experts,
                  std::span<SlotId> slots);

 private:
  void restart(const RoutingTable& table);

  std::int32_t num_experts_;
  Rank rank_;
  std::optional<TableIdentity> identity_;  ///< Counters belong to this table.
  std::vector<std::uint32_t> turns_;       ///< [layers][experts]: place in the table that takes the next one.
};

}  // namespace trimtab
