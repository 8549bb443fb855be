// SPDX-License-Identifier: Apache-2.0
#include "copy_assignment.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {

CopyAssignment::CopyAssignment(std::span<const HostCopy> copies, const Topology& topology,
                               std::vector<std::int32_t> room)
    : copies_(copies), topology_(topology), room_(std::move(room)), kept_(room_.size()) {
  for (Rank rank : ids<Rank>(room_.size())) {
    if (!is_full(rank)) keepers_.push_back(rank);
  }
}

CopyAssignment::Cost CopyAssignment::cost_of(std::size_t copy, Rank rank) const noexcept {
  Cost cost = 0;
  for (const Rank serving : copies_[copy].serving) {
    if (serving == rank) return static_cast<Cost>(copies_.size()) + 1;
    if (topology_.node_of(serving) == topology_.node_of(rank)) cost = 1;
  }
  return cost;
}

void CopyAssignment::assign(std::size_t copy) {
  std::vector<Arrival> arrivals = direct(copy);
  Rank last = cheapest_with_room(arrivals);
  // Pushing others on never gains anything by itself: they lie at the least cost already.
  if (is_cheaper_somewhere(arrivals, arrivals[last.index()].cost)) {
    find_chains(arrivals);
    last = cheapest_with_room(arrivals);
  }
  follow(copy, last, arrivals);
}

std::vector<CopyAssignment::Arrival> CopyAssignment::direct(std::size_t copy) const {
  std::vector<Arrival> arrivals(room_.size());
  for (const Rank rank : keepers_) arrivals[rank.index()].cost = cost_of(copy, rank);
  return arrivals;
}

Rank CopyAssignment::cheapest_with_room(std::span<const Arrival> arrivals) const noexcept {
  Rank best{-1};
  const auto is_better = [&](Rank a, Rank b) {
    if (arrivals[a.index()].cost != arrivals[b.index()].cost)
      return arrivals[a.index()].cost < arrivals[b.index()].cost;
    return room_[a.index()] > room_[b.index()];
  };
  for (const Rank rank : keepers_) {
    if (!is_full(rank) && (best == Rank{-1} || is_better(rank, best))) best = rank;
  }
  return best;
}

bool CopyAssignment::is_cheaper_somewhere(std::span<const Arrival> arrivals, Cost cost) const noexcept {
  return std::ranges::any_of(keepers_, [&](Rank rank) { return arrivals[rank.index()].cost < cost; });
}

/// Costs along a chain may fall as well as rise, so a rank may have to be looked at again (Bellman and Ford);
/// no chain falls for ever, since what is kept so far is kept at the least cost.
void CopyAssignment::find_chains(std::vector<Arrival>& arrivals) const {
  std::vector<Rank> reached = keepers_;
  while (!reached.empty()) {
    std::vector<Rank> next;
    for (const Rank rank : reached) {
      if (is_full(rank)) push_on(rank, arrivals, next);
    }
    reached = std::move(next);
  }
}

void CopyAssignment::push_on(Rank full, std::vector<Arrival>& arrivals, std::vector<Rank>& reached) const {
  for (const std::size_t copy : kept_[full.index()]) {
    const Cost without = arrivals[full.index()].cost - cost_of(copy, full);
    for (const Rank to : keepers_) {
      const Cost cost = without + cost_of(copy, to);
      if (cost >= arrivals[to.index()].cost) continue;
      arrivals[to.index()] = {cost, std::pair{full, copy}};
      reached.push_back(to);
    }
  }
}

void CopyAssignment::follow(std::size_t copy, Rank last, std::span<const Arrival> arrivals) {
  --room_[last.index()];
  while (const auto& from = arrivals[last.index()].from) {
    const auto [rank, pushed] = *from;
    std::erase(kept_[rank.index()], pushed);
    kept_[last.index()].push_back(pushed);
    last = rank;
  }
  kept_[last.index()].push_back(copy);
}

}  // namespace trimtab
