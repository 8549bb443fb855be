// SPDX-License-Identifier: Apache-2.0
#include "plan/region_row.hpp"

#include "plan/union_find.hpp"

#include <limits>
#include <numeric>

namespace trimtab {

RegionRow::RegionRow(std::span<const double> share, const Topology& topology, std::span<const Rank> ranks,
                     std::span<ExpertId> row)
    : share_(share), topology_(topology), ranks_(ranks), row_(row), link_of_(share.size(), 0) {
  for (Rank rank : ranks_) per_speed_.push_back(1.0 / topology.rank(rank).speed);
  for (Rank rank : ranks_) {
    for (SlotId slot : topology_.slots_of(rank)) {
      if (at(slot) != no_expert) ++link_of_[at(slot).index()];
    }
  }
  num_points_ = ranks_.size();
  for (std::size_t& link : link_of_) link = link > 1 ? num_points_++ : 0;
  load_.resize(ranks_.size());
  free_share_.resize(row.size());
  degree_.resize(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) count(r);
}

// Summed anew, so that a load depends on what lies there, not on how it got there.
void RegionRow::count(std::size_t rank) {
  load_[rank] = 0.0;
  degree_[rank] = 0;
  for (SlotId slot : slots(rank)) {
    load_[rank] += share(slot);
    degree_[rank] += is_linked(slot) ? 1 : 0;
    const bool is_free = at(slot) != no_expert && !is_linked(slot);
    free_share_[slot.index()] = is_free ? share(slot) : std::numeric_limits<double>::quiet_NaN();
  }
}

Components find_components(const RegionRow& row, bool few_first) {
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return few_first ? row.degree(a) < row.degree(b) : row.degree(a) > row.degree(b);
  });
  UnionFind sets(row.num_points());
  Components found;
  for (std::size_t rank : order) {
    for (SlotId slot : row.slots(rank)) {
      if (row.is_linked(slot) && !sets.merge(rank, row.link(slot))) found.spare.push_back({rank, slot});
    }
  }
  found.size.assign(row.size(), 0);
  for (std::size_t rank = 0; rank < row.size(); ++rank) {
    found.of.push_back(sets.find(rank));
    found.count += ++found.size[found.of.back()] == 1 ? 1 : 0;
  }
  return found;
}

}  // namespace trimtab
