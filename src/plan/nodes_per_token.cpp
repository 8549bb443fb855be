// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/nodes_per_token.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace trimtab {
namespace {

/// Where a group's load is served: the share of it by node.
struct GroupSpread {
  double load = 0.0;
  std::vector<double> by_node;
};

std::vector<GroupSpread> spread_groups(std::span<const double> loads, std::span<const ExpertId> row,
                                       const Topology& topology, std::int32_t num_groups) {
  const std::size_t size = loads.size() / static_cast<std::size_t>(num_groups);
  std::vector<GroupSpread> groups(static_cast<std::size_t>(num_groups));
  std::vector<double> copies(loads.size(), 0.0);
  for (auto& group : groups) group.by_node.assign(static_cast<std::size_t>(topology.num_nodes()), 0.0);
  for (std::size_t e = 0; e < loads.size(); ++e) groups[e / size].load += loads[e];
  const auto for_each_live = [&](auto visit) {
    for (SlotId slot : ids<SlotId>(row.size())) {
      const ExpertId e = row[slot.index()];
      if (e != no_expert && topology.is_alive(slot)) visit(slot, e.index());
    }
  };
  for_each_live([&](SlotId, std::size_t e) { copies[e] += 1.0; });
  for_each_live([&](SlotId slot, std::size_t e) {
    GroupSpread& group = groups[e / size];
    if (loads[e] == 0.0) return;
    group.by_node[topology.node_of(topology.rank_of(slot)).index()] += loads[e] / copies[e] / group.load;
  });
  std::erase_if(groups, [](const GroupSpread& group) { return group.load == 0.0; });
  return groups;
}

/// Sum over all sets of `size` factors of their product.
double elementary_symmetric(std::span<const double> factors, std::size_t size) {
  std::vector<double> sums(size + 1, 0.0);
  sums[0] = 1.0;
  for (double factor : factors) {
    for (std::size_t k = size; k > 0; --k) sums[k] += sums[k - 1] * factor;
  }
  return sums[size];
}

std::int32_t most_nodes(std::span<const GroupSpread> groups, std::size_t top_groups, const Topology& topology,
                        std::int32_t top_k) {
  std::vector<std::ptrdiff_t> reached;
  std::vector<bool> is_used(static_cast<std::size_t>(topology.num_nodes()), false);
  for (const GroupSpread& group : groups) {
    reached.push_back(
        std::count_if(group.by_node.begin(), group.by_node.end(), [](double s) { return s > 0.0; }));
    for (std::size_t n = 0; n < is_used.size(); ++n) is_used[n] = is_used[n] || group.by_node[n] > 0.0;
  }
  std::sort(reached.begin(), reached.end(), std::greater<>());
  const auto last = reached.begin() + static_cast<std::ptrdiff_t>(top_groups);
  const auto in_groups = std::accumulate(reached.begin(), last, std::ptrdiff_t{0});
  const auto in_use = std::count(is_used.begin(), is_used.end(), true);
  return static_cast<std::int32_t>(std::min({in_groups, in_use, std::ptrdiff_t{top_k}}));
}

}  // namespace

NodesPerToken compute_nodes_per_token(std::span<const double> loads, std::span<const ExpertId> row,
                                      const Topology& topology, const GroupLimit& limit) {
  const std::vector<GroupSpread> groups = spread_groups(loads, row, topology, limit.num_groups);
  if (groups.empty()) return {};
  const std::size_t top_groups = std::min(groups.size(), static_cast<std::size_t>(limit.top_groups));
  const double experts_per_group = static_cast<double>(limit.top_k) / static_cast<double>(top_groups);
  // in units of the mean load: products of many loads overflow
  const double unit = static_cast<double>(groups.size()) /
                      std::accumulate(groups.begin(), groups.end(), 0.0,
                                      [](double sum, const GroupSpread& group) { return sum + group.load; });
  std::vector<double> factors(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) factors[g] = groups[g].load * unit;
  const double all = elementary_symmetric(factors, top_groups);
  NodesPerToken result{0.0, most_nodes(groups, top_groups, topology, limit.top_k)};
  for (std::size_t n = 0; n < groups[0].by_node.size(); ++n) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const double misses = std::max(0.0, 1.0 - groups[g].by_node[n]);
      factors[g] = groups[g].load * unit * std::pow(misses, experts_per_group);
    }
    result.mean += 1.0 - elementary_symmetric(factors, top_groups) / all;
  }
  return result;
}

}  // namespace trimtab
