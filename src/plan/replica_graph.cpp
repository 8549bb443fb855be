// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/replica_graph.hpp>

#include "plan/region.hpp"
#include "plan/union_find.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// The different live ranks of each expert, ascending, in CSR form.
class Holders {
 public:
  Holders(std::span<const ExpertId> row, const Topology& topology) {
    for (SlotId slot : ids<SlotId>(row.size())) {
      if (row[slot.index()] == no_expert || !topology.is_alive(slot)) continue;
      pairs_.push_back({row[slot.index()], topology.rank_of(slot)});
    }
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  }

  /// Calls `visit` with the pairs of each expert that has several ranks.
  template <class Visit>
  void for_each_shared(Visit visit) const {
    for (auto first = pairs_.begin(); first != pairs_.end();) {
      const auto last =
          std::find_if(first, pairs_.end(), [&](const Pair& p) { return p.expert != first->expert; });
      if (last - first > 1) visit(std::span(first, last));
      first = last;
    }
  }

  struct Pair {
    ExpertId expert;
    Rank rank;
    // clang-tidy 14 takes the 0 of a rewritten comparison for a pointer.
    friend auto operator<=>(const Pair&, const Pair&) = default;  // NOLINT(modernize-use-nullptr)
  };

 private:
  std::vector<Pair> pairs_;
};

void find_components(ReplicaGraph& graph, std::span<const Rank> points, UnionFind& sets) {
  std::vector<std::int32_t> size(graph.component_of.size(), 0);
  for (Rank rank : points) ++size[sets.find(rank.index())];
  std::vector<std::size_t> roots;
  for (Rank rank : points) {
    if (sets.find(rank.index()) == rank.index()) roots.push_back(rank.index());
  }
  std::stable_sort(roots.begin(), roots.end(),
                   [&](std::size_t a, std::size_t b) { return size[a] > size[b]; });
  std::vector<std::int32_t> place(size.size(), -1);
  for (std::size_t root : roots) {
    place[root] = graph.num_components();
    graph.component_sizes.push_back(size[root]);
  }
  for (Rank rank : points) graph.component_of[rank.index()] = place[sets.find(rank.index())];
}

DegreeSpread spread_of(std::span<const std::int32_t> degree, std::span<const Rank> points) {
  if (points.empty()) return {};
  DegreeSpread spread{degree[points.front().index()], 0.0, 0};
  for (Rank rank : points) {
    spread.min = std::min(spread.min, degree[rank.index()]);
    spread.max = std::max(spread.max, degree[rank.index()]);
    spread.mean += degree[rank.index()];
  }
  spread.mean /= static_cast<double>(points.size());
  return spread;
}

/// Different ranks that share an expert with each rank.
std::vector<std::int32_t> count_neighbours(const Holders& holders, std::size_t num_ranks) {
  struct Visit {
    Rank rank;
    std::span<const Holders::Pair> copies;
  };
  std::vector<Visit> visits;
  holders.for_each_shared([&](std::span<const Holders::Pair> copies) {
    for (const auto& copy : copies) visits.push_back({copy.rank, copies});
  });
  std::stable_sort(visits.begin(), visits.end(),
                   [](const Visit& a, const Visit& b) { return a.rank < b.rank; });
  std::vector<std::int32_t> count(num_ranks, 0);
  std::vector<Rank> last_seen_by(num_ranks, Rank{-1});
  for (const Visit& visit : visits) {
    for (const auto& copy : visit.copies) {
      if (copy.rank == visit.rank || last_seen_by[copy.rank.index()] == visit.rank) continue;
      last_seen_by[copy.rank.index()] = visit.rank;
      ++count[visit.rank.index()];
    }
  }
  return count;
}

}  // namespace

ReplicaGraph make_replica_graph(std::span<const ExpertId> row, const Topology& topology) {
  const auto num_ranks = static_cast<std::size_t>(topology.num_ranks());
  const std::vector<Rank> points = usable_ranks(topology);
  const Holders holders(row, topology);
  ReplicaGraph graph;
  graph.num_ranks = static_cast<std::int32_t>(points.size());
  graph.component_of.assign(num_ranks, -1);
  UnionFind sets(num_ranks);
  std::vector<std::int32_t> links(num_ranks, 0);
  holders.for_each_shared([&](std::span<const Holders::Pair> copies) {
    for (const auto& copy : copies) {
      sets.merge(copies.front().rank.index(), copy.rank.index());
      links[copy.rank.index()] += static_cast<std::int32_t>(copies.size()) - 1;
    }
  });
  find_components(graph, points, sets);
  graph.num_isolated = static_cast<std::int32_t>(
      std::count_if(points.begin(), points.end(), [&](Rank r) { return links[r.index()] == 0; }));
  graph.links = spread_of(links, points);
  graph.neighbours = spread_of(count_neighbours(holders, num_ranks), points);
  return graph;
}

}  // namespace trimtab
