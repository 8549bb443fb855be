// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Load of one layer by ExpertId, whole layer, whatever part of it a function looks at.
using LayerLoads = std::span<const double>;

/// What is packed as one problem: a layer, or under group_strict a node's part of it.
struct Region {
  std::vector<ExpertId> experts;  ///< Each needs at least one slot here.
  std::vector<Rank> ranks;        ///< Usable ranks, ascending.
};

/// Live ranks with at least one slot, ascending.
[[nodiscard]] std::vector<Rank> usable_ranks(const Topology& topology);
/// Those of them on `node`.
[[nodiscard]] std::vector<Rank> usable_ranks(const Topology& topology, NodeId node);

/// Sum of speed over `ranks`.
[[nodiscard]] double speed_of(std::span<const Rank> ranks, const Topology& topology);
/// Sum of load over `experts`.
[[nodiscard]] double load_of(std::span<const ExpertId> experts, LayerLoads loads);
/// Slots of `ranks` that can hold different experts out of `num_experts`: sum of min(slots, num_experts).
[[nodiscard]] std::int64_t distinct_slots_of(std::span<const Rank> ranks, const Topology& topology,
                                             std::size_t num_experts);

}  // namespace trimtab
