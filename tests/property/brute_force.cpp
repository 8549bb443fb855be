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

}  // namespace trimtab::test
