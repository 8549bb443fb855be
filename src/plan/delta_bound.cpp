// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_bound.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trimtab {
namespace {

/// Sums of loads are rounded; a bound may not rest on the last digits.
constexpr double rounding = 1e-9;

std::int64_t copies_bound(LayerLoads loads, const Holders& holders, const Topology& topology, double limit) {
  double fastest = 0.0;
  for (Rank rank : usable_ranks(topology)) fastest = std::max(fastest, topology.rank(rank).speed);
  std::int64_t moves = 0;
  for (ExpertId e : ids<ExpertId>(loads.size())) {
    const double least = limit > 0.0 ? std::ceil(loads[e.index()] / (limit * fastest) - rounding) : 1.0;
    std::int64_t held = 0;
    Rank last{-1};
    for (Rank rank : holders.of(e)) {
      const bool is_usable = rank.value() < topology.num_ranks() && topology.is_alive(rank);
      if (rank != last && is_usable) ++held;
      last = rank;
    }
    moves += std::max<std::int64_t>(0, static_cast<std::int64_t>(std::max(1.0, least)) - held);
  }
  return moves;
}

/// What the ranks above the limit have to shed.
class Crowding {
 public:
  Crowding(LayerLoads loads, Row row, const Topology& topology, double limit, bool may_leave_vacant)
      : topology_(topology),
        row_(row),
        may_leave_vacant_(may_leave_vacant),
        copies_(loads.size(), 0),
        share_(loads.begin(), loads.end()),
        crowded_holders_(loads.size(), 0) {
    for (ExpertId expert : row) {
      if (expert != no_expert) ++copies_[expert.index()];
    }
    for (std::size_t e = 0; e < share_.size(); ++e) share_[e] /= std::max(copies_[e], 1);
    for (Rank rank : usable_ranks(topology)) look_at(rank, limit * topology.rank(rank).speed);
  }

  /// The fewest moves M with sum of sheds <= (the M largest numbers of crowded holders) + min(M, droppable).
  [[nodiscard]] std::int64_t bound() const {
    std::vector<std::int64_t> per_move = crowded_holders_;
    std::sort(per_move.begin(), per_move.end(), std::greater<>());
    std::int64_t shed = 0;
    std::int64_t moves = 0;
    while (shed + std::min(moves, droppable_) < needed_) {
      if (static_cast<std::size_t>(moves) < per_move.size())
        shed += per_move[static_cast<std::size_t>(moves)];
      ++moves;
      if (moves > static_cast<std::int64_t>(row_.size())) break;
    }
    return moves;
  }

 private:
  struct Held {
    double load = 0.0;  ///< Of all replicas on the rank.
    std::int64_t droppable = 0;
    ExpertId expert;
  };

  [[nodiscard]] std::vector<Held> held_by(Rank rank) const {
    std::vector<Held> held;
    for (SlotId slot : topology_.slots_of(rank)) {
      const ExpertId expert = row_[slot.index()];
      if (expert == no_expert) continue;
      auto found = std::find_if(held.begin(), held.end(), [&](const Held& h) { return h.expert == expert; });
      if (found == held.end()) found = held.insert(found, {0.0, 0, expert});
      found->load += share_[expert.index()];
      if (copies_[expert.index()] > 1) ++found->droppable;
    }
    return held;
  }

  void look_at(Rank rank, double limit) {
    std::vector<Held> held = held_by(rank);
    double load = 0.0;
    for (const Held& h : held) load += h.load;
    double excess = load - limit * (1.0 + rounding);
    if (excess <= 0.0) return;
    if (may_leave_vacant_) {  // then what has other replicas can go without a move
      for (const Held& h : held) excess -= h.droppable > 0 ? h.load : 0.0;
      std::erase_if(held, [](const Held& h) { return h.droppable > 0; });
    }
    std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.load > b.load; });
    for (const Held& h : held) {
      ++crowded_holders_[h.expert.index()];
      droppable_ += h.droppable;
    }
    for (auto h = held.begin(); excess > 0.0 && h != held.end(); ++h) {
      excess -= h->load;
      ++needed_;
    }
  }

  const Topology& topology_;
  Row row_;
  bool may_leave_vacant_;
  std::vector<std::int32_t> copies_;
  std::vector<double> share_;
  std::vector<std::int64_t> crowded_holders_;  ///< By ExpertId: crowded ranks that hold it.
  std::int64_t needed_ = 0;                    ///< Pairs of a crowded rank and an expert that it must shed.
  std::int64_t droppable_ = 0;                 ///< Replicas on crowded ranks that are not the only one.
};

std::int64_t groups_bound(LayerLoads loads, const Topology& topology, double limit, const DeltaRules& rules) {
  if (rules.home.empty()) return 0;
  std::vector<double> node_load(static_cast<std::size_t>(topology.num_nodes()), 0.0);
  for (std::size_t e = 0; e < loads.size(); ++e) node_load[rules.home[e].index()] += loads[e];
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    const double speed = speed_of(usable_ranks(topology, node), topology);
    if (node_load[node.index()] > limit * speed * (1.0 + rounding)) {
      return 2 * static_cast<std::int64_t>(rules.group_size);
    }
  }
  return 0;
}

/// Whether every expert that a live rank held is still in its row. Where slots went away, an expert may come
/// back to such a rank without a move.
bool holds_everything(Row row, const Holders& holders, const Topology& topology, std::size_t num_experts) {
  std::int64_t held = 0;
  for (ExpertId e : ids<ExpertId>(num_experts)) {
    for (Rank rank : holders.of(e))
      held += rank.value() < topology.num_ranks() && topology.is_alive(rank) ? 1 : 0;
  }
  return held == std::count_if(row.begin(), row.end(), [](ExpertId e) { return e != no_expert; });
}

}  // namespace

std::int32_t moves_bound(LayerLoads loads, Row row, const Holders& holders, const Topology& topology,
                         double limit, const DeltaRules& rules) {
  std::int64_t bound = copies_bound(loads, holders, topology, limit);
  if (limit > 0.0 && !rules.may_repeat && holds_everything(row, holders, topology, loads.size())) {
    bound = std::max({bound, Crowding(loads, row, topology, limit, rules.may_leave_vacant).bound(),
                      groups_bound(loads, topology, limit, rules)});
  }
  return static_cast<std::int32_t>(bound);
}

}  // namespace trimtab
