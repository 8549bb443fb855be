// SPDX-License-Identifier: Apache-2.0
#include "plan/bound.hpp"

#include "plan/replicate.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace trimtab {
namespace {

/// [m]: sum of the m fastest speeds.
std::vector<double> fastest_speeds(std::span<const Rank> ranks, const Topology& topology) {
  std::vector<double> sums;
  for (Rank rank : ranks) sums.push_back(topology.rank(rank).speed);
  std::sort(sums.begin(), sums.end(), std::greater<>());
  sums.insert(sums.begin(), 0.0);
  for (std::size_t m = 1; m < sums.size(); ++m) sums[m] += sums[m - 1];
  return sums;
}

double replica_floor(LayerLoads loads, const Region& region, const Topology& topology, const CopyRoom& room) {
  const std::vector<double> speeds = fastest_speeds(region.ranks, topology);
  const std::vector<std::int32_t> counts = raise_highest_average(loads, region.experts, speeds, room);
  double floor = 0.0;
  for (ExpertId e : region.experts) {
    floor = std::max(floor, loads[e.index()] / speeds[static_cast<std::size_t>(counts[e.index()])]);
  }
  return floor;
}

/// Raises that are left for one group of `node` once each expert there has a slot.
double group_floor(LayerLoads loads, const std::vector<ExpertId>& group, const NodeRanks& node,
                   std::size_t experts_per_node, const Topology& topology) {
  const std::int64_t raises =
      distinct_slots_of(node.ranks, topology, experts_per_node) - static_cast<std::int64_t>(experts_per_node);
  const Region region{group, node.ranks};
  return replica_floor(loads, region, topology, CopyRoom(region, topology, raises));
}

}  // namespace

double pressure_bound(LayerLoads loads, const Region& region, const Topology& topology) {
  const double mean = load_of(region.experts, loads) / speed_of(region.ranks, topology);
  return std::max(mean, replica_floor(loads, region, topology, CopyRoom(region, topology)));
}

double pressure_bound(LayerLoads loads, std::span<const std::vector<ExpertId>> groups,
                      std::span<const NodeRanks> nodes, const GroupPacking& packing,
                      const Topology& topology) {
  double load = 0.0;
  double speed = 0.0;
  for (const auto& group : groups) load += load_of(group, loads);
  for (const NodeRanks& node : nodes) speed += node.speed;
  double bound = std::max(packing.bound, load / speed);
  const std::size_t experts_per_node = groups.size() / nodes.size() * groups.front().size();
  for (const auto& group : groups) {
    double floor = std::numeric_limits<double>::infinity();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].kind != n) continue;
      floor = std::min(floor, group_floor(loads, group, nodes[n], experts_per_node, topology));
    }
    bound = std::max(bound, floor);
  }
  return bound;
}

}  // namespace trimtab
