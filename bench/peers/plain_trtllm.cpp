// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "plain.hpp"

namespace trimtab::bench {
namespace {

using Entry = std::pair<double, int>;

std::vector<int> count_copies(const std::vector<float>& loads, std::size_t num_slots) {
  std::vector<int> counts(loads.size(), 1);
  std::priority_queue<Entry> fullest;
  for (std::size_t e = 0; e < loads.size(); ++e) fullest.push({loads[e], static_cast<int>(e)});
  for (std::size_t s = loads.size(); s < num_slots; ++s) {
    const auto e = static_cast<std::size_t>(fullest.top().second);
    fullest.pop();
    ++counts[e];
    fullest.push({loads[e] / static_cast<double>(counts[e]), static_cast<int>(e)});
  }
  return counts;
}

std::vector<std::vector<int>> pack_on_ranks(const std::vector<float>& loads, const std::vector<int>& counts,
                                            std::size_t num_ranks, std::size_t slots_per_rank) {
  std::vector<Entry> replicas;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    const double share = loads[e] / static_cast<double>(counts[e]);
    replicas.insert(replicas.end(), static_cast<std::size_t>(counts[e]), {share, static_cast<int>(e)});
  }
  std::sort(replicas.begin(), replicas.end(), [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::vector<int>> on_rank(num_ranks);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest;
  for (std::size_t r = 0; r < num_ranks; ++r) lightest.push({0.0, static_cast<int>(r)});
  for (const auto& [share, expert] : replicas) {
    const auto [load, rank] = lightest.top();
    lightest.pop();
    auto& held = on_rank[static_cast<std::size_t>(rank)];
    held.push_back(expert);
    if (held.size() < slots_per_rank) lightest.push({load + share, rank});
  }
  return on_rank;
}

}  // namespace

std::vector<ExpertId> plan_with_heaps(const LoadMatrix& loads, const EplbShape& shape) {
  const auto num_slots = static_cast<std::size_t>(shape.num_slots);
  const auto num_ranks = static_cast<std::size_t>(shape.num_ranks);
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const std::vector<float> row(loads.layer(layer).begin(), loads.layer(layer).end());
    const std::vector<int> counts = count_copies(row, num_slots);
    for (const auto& held : pack_on_ranks(row, counts, num_ranks, num_slots / num_ranks)) {
      for (int expert : held) map.push_back(ExpertId{expert});
    }
  }
  return map;
}

}  // namespace trimtab::bench
