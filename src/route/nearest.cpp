// SPDX-License-Identifier: Apache-2.0
#include "route/nearest.hpp"

#include "route/spread.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

/// What is still missing of `target`, given that the candidates are to get `target` in proportion to shares.
template <class Candidates>
void set_wanted(Candidates&& candidates, double target) {
  double shares = 0.0;
  for (const auto& candidate : candidates) shares += candidate.share;
  for (auto& candidate : candidates) {
    candidate.wanted = std::max(0.0, target * candidate.share / shares - candidate.given);
  }
}

template <class Candidates>
double total_wanted(const Candidates& candidates) {
  double sum = 0.0;
  for (const auto& candidate : candidates) sum += candidate.wanted;
  return sum;
}

/// Calls `visit` with each run of candidates of one node.
template <class Candidate, class Visit>
void for_each_node(std::span<Candidate> candidates, Visit visit) {
  for (std::size_t begin = 0, end = 0; begin < candidates.size(); begin = end) {
    while (end < candidates.size() && candidates[end].node == candidates[begin].node) ++end;
    visit(candidates.subspan(begin, end - begin));
  }
}

}  // namespace

NearestFinder::NearestFinder(const RoutingTable& table, Rank self)
    : table_(table), self_(self), node_(table.topology().node_of(self)) {
  const Topology& topology = table.topology();
  node_load_.resize(static_cast<std::size_t>(topology.num_nodes()));
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    double& load = node_load_[topology.node_of(rank).index()];
    before_in_node_.push_back(load);
    load += load_of(rank);
  }
  double sum = 0.0;
  for (double load : node_load_) {
    nodes_before_.push_back(sum);
    sum += load;
  }
}

double NearestFinder::load_of(Rank rank) const {
  const auto before = table_.source_loads_before();
  return static_cast<double>(before[rank.index() + 1] - before[rank.index()]);
}

void NearestFinder::collect(LayerId layer, ExpertId expert) {
  const Topology& topology = table_.topology();
  const auto slots = table_.replicas(layer, expert);
  const auto begins = table_.share_begins(layer, expert);
  candidates_.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Rank rank = topology.rank_of(slots[i]);
    candidates_.push_back({.slot = slots[i],
                           .rank = rank,
                           .node = topology.node_of(rank),
                           .share = static_cast<double>(RoutingTable::share_at(begins, i)) /
                                    static_cast<double>(RoutingTable::whole_share)});
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.node, a.slot) < std::pair(b.node, b.slot);
  });
}

/// Of two replicas on one rank, which is rare, the first takes that rank's tokens.
void NearestFinder::give_own() {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const bool is_first = i == 0 || candidates_[i].rank != candidates_[i - 1].rank;
    if (is_first) candidates_[i].given = load_of(candidates_[i].rank);
  }
}

NearestFinder::Crowd NearestFinder::crowd_of_node(std::span<const Candidate> on_node) const {
  const NodeId node = on_node.front().node;
  Crowd crowd{node_load_[node.index()], before_in_node_[self_.index()]};
  for (const Candidate& candidate : on_node) {
    crowd.total -= candidate.given;
    if (candidate.rank < self_) crowd.before -= candidate.given;
  }
  return crowd;
}

void NearestFinder::deal_out_nodes() {
  for_each_node(std::span(candidates_), [&](std::span<Candidate> on_node) {
    set_wanted(on_node, node_load_[on_node.front().node.index()]);
    const double wanted = total_wanted(on_node);
    const double lacking = crowd_of_node(on_node).total;
    for (Candidate& candidate : on_node) {
      if (wanted > 0.0) candidate.given += lacking * candidate.wanted / wanted;
    }
  });
}

NearestFinder::Crowd NearestFinder::crowd_of_nodes() const {
  Crowd crowd{nodes_before_.back() + node_load_.back(),
              nodes_before_[node_.index()] + before_in_node_[self_.index()]};
  for_each_node(std::span(candidates_), [&](std::span<const Candidate> on_node) {
    const NodeId node = on_node.front().node;
    crowd.total -= node_load_[node.index()];
    if (node < node_) crowd.before -= node_load_[node.index()];
  });
  return crowd;
}

/// The candidate in whose part of the crowd the middle of our tokens lies.
SlotId NearestFinder::choose(std::span<const Candidate> candidates, const Crowd& crowd,
                             std::size_t shift) const {
  const double wanted = total_wanted(candidates);
  const double middle = crowd.total > 0.0 ? (crowd.before + load_of(self_) / 2) / crowd.total : 0.0;
  double reached = 0.0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[(i + shift) % candidates.size()];
    reached += wanted > 0.0 ? candidate.wanted / wanted : candidate.share;
    if (middle < reached) return candidate.slot;
  }
  return candidates[(candidates.size() - 1 + shift) % candidates.size()].slot;
}

SlotId NearestFinder::find(LayerId layer, ExpertId expert) {
  const auto slots = table_.replicas(layer, expert);
  if (slots.size() == 1) return slots.front();
  collect(layer, expert);
  const auto own = std::find_if(candidates_.begin(), candidates_.end(),
                                [&](const Candidate& candidate) { return candidate.rank == self_; });
  if (own != candidates_.end()) return own->slot;
  give_own();
  const auto [begin, end] =
      std::equal_range(candidates_.begin(), candidates_.end(), Candidate{.node = node_},
                       [](const Candidate& a, const Candidate& b) { return a.node < b.node; });
  const std::uint32_t spread = mix(layer, expert);
  if (begin != end) {
    const auto on_node = std::span(begin, end);
    set_wanted(on_node, node_load_[node_.index()]);
    return choose(on_node, crowd_of_node(on_node), spread % on_node.size());
  }
  deal_out_nodes();
  set_wanted(candidates_, nodes_before_.back() + node_load_.back());
  return choose(candidates_, crowd_of_nodes(), spread % candidates_.size());
}

}  // namespace trimtab
