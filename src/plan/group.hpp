// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <span>
#include <vector>

namespace trimtab {

struct GroupPacking {
  std::vector<NodeId> node_of_group;
  double pressure = 0.0;    ///< Largest load / speed over the nodes.
  double bound = 0.0;       ///< No packing has a smaller one; equals `pressure` when that is optimal.
  bool is_optimal = false;  ///< Proven: no packing has a smaller one, up to rounding (1e-12 of it).
};

/// Gives each node equally many groups so that the largest load / speed of a node is small.
///
/// Optimal for up to 16 groups, and for any number of them with one node, one group per node, or two per
/// node of equal speed. Beyond that heaviest first, then swaps, then pairs of nodes split anew, a fixed
/// number of times; optimal only where that meets `bound`. Same input, same output; equal groups go to the
/// lower node. Precondition: the nodes divide the groups; speeds are positive.
[[nodiscard]] GroupPacking pack_groups(std::span<const double> group_loads,
                                       std::span<const double> node_speeds);

}  // namespace trimtab
