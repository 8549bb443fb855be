// SPDX-License-Identifier: Apache-2.0
#include "brute_force.hpp"

#include <trimtab/core/imbalance.hpp>

#include <algorithm>
#include <vector>

namespace trimtab::test {
namespace {

std::vector<std::int32_t> live_counts(std::size_t num_experts, std::span<const ExpertId> row,
                                      const Topology& topology) {
  std::vector<std::int32_t> counts(num_experts, 0);
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] != no_expert && topology.is_alive(slot)) ++counts[row[slot.index()].index()];
  }
  return counts;
}

/// Counts upwards like an odometer. @return false after the last row
bool advance(std::vector<ExpertId>& row, std::int32_t num_experts) {
  for (ExpertId& digit : row) {
    digit = digit.next();
    if (digit.value() < num_experts) return true;
    digit = no_expert;
  }
  return false;
}

}  // namespace

void for_each_row(std::int32_t num_experts, const Topology& topology,
                  const std::function<void(std::span<const ExpertId>)>& visit) {
  std::vector<ExpertId> row(static_cast<std::size_t>(topology.num_slots()), no_expert);
  do {
    const auto counts = live_counts(static_cast<std::size_t>(num_experts), row, topology);
    if (std::find(counts.begin(), counts.end(), 0) == counts.end()) visit(row);
  } while (advance(row, num_experts));
}

bool has_no_duplicates(std::span<const ExpertId> row, const Topology& topology) {
  for (SlotId a : ids<SlotId>(row.size())) {
    for (SlotId b : topology.slots_of(topology.rank_of(a))) {
      if (a < b && row[a.index()] != no_expert && row[a.index()] == row[b.index()]) return false;
    }
  }
  return true;
}

double max_pressure(std::span<const double> loads, std::span<const ExpertId> row, const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, row, topology), topology).max;
}

double max_share(std::span<const double> loads, std::span<const ExpertId> row, const Topology& topology) {
  const auto counts = live_counts(loads.size(), row, topology);
  double largest = 0.0;
  for (std::size_t e = 0; e < loads.size(); ++e) largest = std::max(largest, loads[e] / counts[e]);
  return largest;
}

double least_spill(std::span<const double> loads, std::span<const ExpertId> row, std::int32_t num_groups,
                   const Topology& topology) {
  const auto group_size = loads.size() / static_cast<std::size_t>(num_groups);
  const auto num_nodes = static_cast<std::size_t>(topology.num_nodes());
  std::vector<double> copies(loads.size(), 0.0);
  double total = 0.0;
  for (double load : loads) total += load;
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] != no_expert && topology.is_alive(slot)) ++copies[row[slot.index()].index()];
  }
  std::vector<std::vector<double>> served(static_cast<std::size_t>(num_groups),
                                          std::vector<double>(num_nodes, 0.0));
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId e = row[slot.index()];
    if (e == no_expert || !topology.is_alive(slot)) continue;
    served[e.index() / group_size][topology.node_of(topology.rank_of(slot)).index()] +=
        loads[e.index()] / copies[e.index()];
  }
  // every order of "node 0 as often as it has groups, node 1 …" is one assignment
  std::vector<std::size_t> home;
  for (std::size_t g = 0; g < served.size(); ++g) home.push_back(g * num_nodes / served.size());
  double most_at_home = 0.0;
  do {
    double at_home = 0.0;
    for (std::size_t g = 0; g < home.size(); ++g) at_home += served[g][home[g]];
    most_at_home = std::max(most_at_home, at_home);
  } while (std::next_permutation(home.begin(), home.end()));
  return 1.0 - most_at_home / total;
}

}  // namespace trimtab::test
