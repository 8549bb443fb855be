// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/trtllm.hpp"

#include "plan/compat/winner_tree.hpp"

#include <algorithm>
#include <numeric>

namespace trimtab {
namespace {

using DoubleKey = Key<double>;

/// In single precision, as the recorder hands loads over. Adding zero turns -0.0 into 0.0.
double load_of(double load) { return double{static_cast<float>(load) + 0.0F}; }

std::vector<std::int32_t> count_evenly(std::size_t num_experts, std::size_t num_slots) {
  std::vector<std::int32_t> counts(num_experts, static_cast<std::int32_t>(num_slots / num_experts));
  for (std::size_t e = 0; e < num_slots % num_experts; ++e) ++counts[e];
  return counts;
}

struct Replica {
  double load;
  std::uint32_t expert;
};

std::vector<Replica> sorted_replicas(std::span<const double> loads, std::span<const std::int32_t> counts) {
  std::vector<Replica> experts(loads.size());
  for (std::size_t e = 0; e < loads.size(); ++e) {
    experts[e] = {load_of(loads[e]) / counts[e], static_cast<std::uint32_t>(e)};
  }
  // All replicas of an expert are equal, so it is enough to sort the experts.
  std::sort(experts.begin(), experts.end(), [](const Replica& a, const Replica& b) {
    return a.load != b.load ? a.load > b.load : a.expert < b.expert;
  });
  std::vector<Replica> replicas;
  replicas.reserve(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0)));
  for (const Replica& replica : experts) {
    replicas.insert(replicas.end(), static_cast<std::size_t>(counts[replica.expert]), replica);
  }
  return replicas;
}

}  // namespace

std::vector<std::int32_t> count_like_trtllm(std::span<const double> loads, std::int32_t num_slots) {
  const auto slots = static_cast<std::size_t>(num_slots);
  if (std::all_of(loads.begin(), loads.end(), [](double load) { return load_of(load) == 0.0; })) {
    return count_evenly(loads.size(), slots);
  }
  std::vector<std::int32_t> counts(loads.size(), 1);
  // The higher of equal experts comes first, so owners are stored upside down.
  WinnerTree<DoubleKey> tree;
  tree.assign(loads.size(), [&](std::size_t e) {
    return DoubleKey::largest_first(load_of(loads[e]), ~static_cast<std::uint32_t>(e));
  });
  for (std::size_t s = loads.size(); s < slots; ++s) {
    const std::uint32_t most_loaded = ~tree.winner().owner();
    const double average = load_of(loads[most_loaded]) / ++counts[most_loaded];
    tree.replace(most_loaded, DoubleKey::largest_first(average, ~most_loaded));
  }
  return counts;
}

void plan_row_like_trtllm(std::span<const double> loads, std::int32_t num_ranks, std::span<ExpertId> row) {
  const auto counts = count_like_trtllm(loads, static_cast<std::int32_t>(row.size()));
  const std::size_t slots_per_rank = row.size() / static_cast<std::size_t>(num_ranks);
  std::vector<std::size_t> used(static_cast<std::size_t>(num_ranks), 0);
  WinnerTree<DoubleKey> tree;
  tree.assign(used.size(), [](std::size_t rank) {
    return DoubleKey::smallest_first(0.0, static_cast<std::uint32_t>(rank));
  });
  for (const Replica& replica : sorted_replicas(loads, counts)) {
    const DoubleKey lightest = tree.winner();
    const std::uint32_t rank = lightest.owner();
    row[rank * slots_per_rank + used[rank]] = ExpertId{static_cast<ExpertId::rep>(replica.expert)};
    const bool is_full = ++used[rank] == slots_per_rank;
    tree.replace(
        rank, is_full ? DoubleKey::last() : DoubleKey::smallest_first(lightest.value() + replica.load, rank));
  }
}

}  // namespace trimtab
