// SPDX-License-Identifier: Apache-2.0
#include "support/exact_split.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace trimtab::test {
namespace {

/// Experts to ranks. An expert's load is to be sent; ranks take what is below their level.
class Transport {
 public:
  Transport(std::span<const double> loads, std::span<const ExpertId> row, const Topology& topology)
      : topology_(topology), left_(loads.begin(), loads.end()), taken_(index(topology.num_ranks()), 0.0) {
    std::vector<std::vector<std::size_t>> ranks(loads.size());
    for (SlotId slot : ids<SlotId>(row.size())) {
      if (row[slot.index()] == no_expert || !topology.is_alive(slot)) continue;
      ranks[row[slot.index()].index()].push_back(topology.rank_of(slot).index());
    }
    for (std::size_t e = 0; e < ranks.size(); ++e) {
      ranks[e].erase(std::unique(ranks[e].begin(), ranks[e].end()), ranks[e].end());
      for (std::size_t r : ranks[e]) routes_.push_back({e, r, 0.0});
    }
    tolerance_ = 1e-9 * mean();
  }

  [[nodiscard]] double mean() const {
    double sum = 0.0;
    for (double load : left_) sum += load;
    for (double load : taken_) sum += load;
    return sum / topology_.total_speed();
  }

  /// Raises the level as little as needed until all load is taken: the ranks that a load left over can
  /// reach are full, so only a higher level of just these helps.
  double level() {
    double level = mean();
    for (;;) {
      while (augment(level)) {
      }
      double stuck = 0.0;
      double speed = 0.0;
      for (double load : left_) stuck += load;
      if (stuck <= tolerance_) return level;
      for (std::size_t r = 0; r < taken_.size(); ++r) speed += rank_seen_[r] ? speed_of(r) : 0.0;
      level += stuck / speed;
    }
  }

 private:
  struct Route {
    std::size_t expert, rank;
    double sent;
  };

  static std::size_t index(std::int32_t n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] double speed_of(std::size_t rank) const {
    return topology_.rank(Rank{static_cast<Rank::rep>(rank)}).speed;
  }
  [[nodiscard]] double room(std::size_t rank, double level) const {
    return level * speed_of(rank) - taken_[rank];
  }

  /// One path from an expert with load left to a rank with room, breadth first; false when there is none.
  bool augment(double level) {
    constexpr std::size_t nothing = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> via_rank(taken_.size(), nothing);  // route by which a rank was reached
    std::vector<std::size_t> via_expert(left_.size(), nothing);
    std::vector<bool> expert_seen(left_.size());
    rank_seen_.assign(taken_.size(), false);
    for (std::size_t e = 0; e < left_.size(); ++e) expert_seen[e] = left_[e] > tolerance_ / 1e3;
    for (bool grows = true; grows;) {
      grows = false;
      for (std::size_t i = 0; i < routes_.size(); ++i) {
        const Route& route = routes_[i];
        if (expert_seen[route.expert] && !rank_seen_[route.rank]) {
          rank_seen_[route.rank] = grows = true;
          via_rank[route.rank] = i;
          if (room(route.rank, level) > tolerance_ / 1e3)
            return send(route.rank, level, via_rank, via_expert), true;
        } else if (rank_seen_[route.rank] && !expert_seen[route.expert] && route.sent > tolerance_ / 1e3) {
          expert_seen[route.expert] = grows = true;
          via_expert[route.expert] = i;
        }
      }
    }
    return false;
  }

  void send(std::size_t rank, double level, const std::vector<std::size_t>& via_rank,
            const std::vector<std::size_t>& via_expert) {
    constexpr std::size_t nothing = std::numeric_limits<std::size_t>::max();
    double amount = room(rank, level);
    std::size_t source = nothing;
    for (std::size_t r = rank;;) {
      source = routes_[via_rank[r]].expert;
      if (via_expert[source] == nothing) break;
      amount = std::min(amount, routes_[via_expert[source]].sent);
      r = routes_[via_expert[source]].rank;
    }
    amount = std::min(amount, left_[source]);
    left_[source] -= amount;
    taken_[rank] += amount;
    for (std::size_t r = rank;;) {
      Route& forward = routes_[via_rank[r]];
      forward.sent += amount;
      if (forward.expert == source) return;
      Route& back = routes_[via_expert[forward.expert]];
      back.sent -= amount;
      r = back.rank;
    }
  }

  const Topology& topology_;
  std::vector<double> left_;
  std::vector<double> taken_;
  std::vector<Route> routes_;
  std::vector<bool> rank_seen_;
  double tolerance_ = 0.0;
};

}  // namespace

double best_split_imbalance(std::span<const double> loads, std::span<const ExpertId> row,
                            const Topology& topology) {
  Transport transport(loads, row, topology);
  const double mean = transport.mean();
  return mean > 0.0 ? transport.level() / mean : 1.0;
}

}  // namespace trimtab::test
