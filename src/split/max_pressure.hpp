// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace trimtab {

/// Largest load / speed of a rank. `assignments` is [slots].
[[nodiscard]] inline double max_pressure(std::span<const std::int64_t> assignments,
                                         const Topology& topology) {
  double most = 0.0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    std::int64_t load = 0;
    for (SlotId slot : topology.slots_of(rank)) load += assignments[slot.index()];
    most = std::max(most, static_cast<double>(load) / topology.rank(rank).speed);
  }
  return most;
}

}  // namespace trimtab
