// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <span>
#include <vector>

namespace trimtab {

struct GroupPacking {
  std::vector<NodeId> node_of_group;
  double pressure = 0.0;    ///< Largest load / speed over the nodes.
  bool is_optimal = false;  ///< No packing has a smaller one.
};

/// Gives each node equally many groups so that the largest load / speed of a node is small. Heaviest group
/// first onto the node of least load / speed (equal: the lower), then branch and bound within a fixed budget;
/// up to eight groups it always ends within it.
/// Precondition: the nodes divide the groups; speeds are positive.
[[nodiscard]] GroupPacking pack_groups(std::span<const double> group_loads,
                                       std::span<const double> node_speeds);

}  // namespace trimtab
