// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// How a number is spread over the ranks of a graph; zeros when there are none.
struct DegreeSpread {
  std::int32_t min = 0;
  double mean = 0.0;
  std::int32_t max = 0;
};

/// Facts of the replica graph of one layer. Its points are the live ranks that have slots; an edge joins two
/// of them for each expert that lives on both. Load can be shifted along edges by changing shares alone, so
/// only inside a component can a split answer a change of load without moving weights.
struct ReplicaGraph {
  std::int32_t num_ranks = 0;                 ///< Points.
  std::vector<std::int32_t> component_sizes;  ///< Ranks in each, largest first; the sum is `num_ranks`.
  std::vector<std::int32_t> component_of;     ///< By Rank: its place in `component_sizes`; -1: not a point.
  std::int32_t num_isolated = 0;              ///< Ranks without an edge.
  DegreeSpread neighbours;                    ///< Different ranks that a rank shares an expert with.
  DegreeSpread links;                         ///< Edges of a rank, one for each expert and other rank.

  [[nodiscard]] std::int32_t num_components() const noexcept {
    return static_cast<std::int32_t>(component_sizes.size());
  }
};

/// @param row  expert of each slot, `no_expert` where vacant; `row.size() == topology.num_slots()`
/// Components of equal size are ordered by their lowest rank. Several copies of an expert on a rank count as
/// one. Time is O(slots + sum over experts of copies squared), memory O(slots + experts).
[[nodiscard]] ReplicaGraph make_replica_graph(std::span<const ExpertId> row, const Topology& topology);

}  // namespace trimtab
