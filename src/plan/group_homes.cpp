// SPDX-License-Identifier: Apache-2.0
#include "plan/group_homes.hpp"

#include "plan/assignment.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

/// Load / speed of nodes as groups change between them.
class NodeLoads {
 public:
  NodeLoads(const GroupHomes& homes, std::span<const double> group_loads, const Topology& topology)
      : loads_(static_cast<std::size_t>(topology.num_nodes()), 0.0) {
    for (std::size_t g = 0; g < homes.size(); ++g) loads_[homes[g].index()] += group_loads[g];
    for (NodeId node : ids<NodeId>(topology.num_nodes())) {
      speeds_.push_back(speed_of(usable_ranks(topology, node), topology));
    }
  }

  [[nodiscard]] double pressure(NodeId node, double change = 0.0) const {
    return (loads_[node.index()] + change) / speeds_[node.index()];
  }
  void shift(NodeId from, NodeId to, double load) {
    loads_[from.index()] -= load;
    loads_[to.index()] += load;
  }
  [[nodiscard]] double max_pressure() const {
    double most = 0.0;
    for (std::size_t n = 0; n < loads_.size(); ++n) most = std::max(most, loads_[n] / speeds_[n]);
    return most;
  }

 private:
  std::vector<double> loads_;
  std::vector<double> speeds_;
};

struct GroupSwap {
  double gain = 0.0;
  std::size_t a = 0;
  std::size_t b = 0;
};

GroupSwap best_swap(const GroupHomes& homes, std::span<const double> group_loads, const NodeLoads& nodes,
                    double limit) {
  constexpr double least_gain = 1e-9;
  const auto excess = [&](double pressure) { return std::max(0.0, pressure - limit); };
  GroupSwap best{.gain = least_gain * limit};
  for (std::size_t a = 0; a < homes.size(); ++a) {
    if (nodes.pressure(homes[a]) <= limit) continue;
    for (std::size_t b = 0; b < homes.size(); ++b) {
      const double load = group_loads[a] - group_loads[b];
      if (homes[a] == homes[b] || load <= 0.0) continue;
      const double gain = excess(nodes.pressure(homes[a])) + excess(nodes.pressure(homes[b])) -
                          excess(nodes.pressure(homes[a], -load)) - excess(nodes.pressure(homes[b], load));
      if (gain > best.gain) best = {gain, a, b};
    }
  }
  return best;
}

}  // namespace

GroupHomes nearest_homes(Row row, std::int32_t num_experts, std::int32_t num_groups,
                         const Topology& topology) {
  const auto groups = static_cast<std::size_t>(num_groups);
  const auto nodes = static_cast<std::size_t>(topology.num_nodes());
  const std::size_t per_group = static_cast<std::size_t>(num_experts) / groups;
  std::vector<std::int64_t> replicas(groups * nodes, 0);
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] == no_expert || !topology.is_alive(slot)) continue;
    const std::size_t group = row[slot.index()].index() / per_group;
    ++replicas[group * nodes + topology.node_of(topology.rank_of(slot)).index()];
  }
  // A column for each place: node p / (groups per node).
  const std::size_t per_node = groups / nodes;
  const auto places = assign_best(groups, [&](std::size_t group, std::span<std::int64_t> values) {
    for (std::size_t p = 0; p < groups; ++p) values[p] = replicas[group * nodes + p / per_node];
  });
  GroupHomes homes;
  for (std::size_t place : places) homes.push_back(NodeId{static_cast<NodeId::rep>(place / per_node)});
  return homes;
}

std::vector<GroupHomes> level_homes(const GroupHomes& homes, std::span<const double> group_loads,
                                    const Topology& topology, double limit) {
  NodeLoads nodes(homes, group_loads, topology);
  std::vector<GroupHomes> path;
  GroupHomes current = homes;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const GroupSwap swap = best_swap(current, group_loads, nodes, limit);
    if (swap.a == swap.b) break;
    nodes.shift(current[swap.a], current[swap.b], group_loads[swap.a] - group_loads[swap.b]);
    std::swap(current[swap.a], current[swap.b]);
    path.push_back(current);
  }
  return path;
}

double node_pressure(const GroupHomes& homes, std::span<const double> group_loads, const Topology& topology) {
  return NodeLoads(homes, group_loads, topology).max_pressure();
}

std::vector<NodeId> expert_homes(const GroupHomes& homes, std::int32_t num_experts) {
  const std::size_t per_group = static_cast<std::size_t>(num_experts) / homes.size();
  std::vector<NodeId> result;
  for (NodeId home : homes) result.insert(result.end(), per_group, home);
  return result;
}

std::vector<double> group_loads_of(LayerLoads loads, std::int32_t num_groups) {
  const std::size_t per_group = loads.size() / static_cast<std::size_t>(num_groups);
  std::vector<double> result(static_cast<std::size_t>(num_groups), 0.0);
  for (std::size_t e = 0; e < loads.size(); ++e) result[e / per_group] += loads[e];
  return result;
}

}  // namespace trimtab
