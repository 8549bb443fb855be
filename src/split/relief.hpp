// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "split/share_network.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// A division of the shared experts' load among their ranks, whole (int64) or fractional (double).
template <class Number>
struct ShareFlow {
  std::vector<Number> on_edge;  ///< By EdgeId.
  std::vector<Number> load;     ///< By Rank: of its edges and whatever else lies there.
  std::vector<Number> limit;    ///< By Rank: what load is moved towards.

  void resize(const ShareNetwork& network) {
    on_edge.assign(network.num_edges(), 0);
    load.assign(network.num_ranks(), 0);
    limit.assign(network.num_ranks(), 0);
  }
};

/// Brings every rank of a region to its limit as far as one pass from the leaves of its spanning trees to the
/// roots can: exact wherever no edge runs empty.
/// @param region     ranks, parents before children
/// @param region_of  by Rank: trees end where it changes
template <class Number>
void sweep_trees(const ShareNetwork& network, std::span<const Rank> region,
                 std::span<const std::int32_t> region_of, ShareFlow<Number>& flow) {
  for (std::size_t i = region.size(); i-- > 0;) {
    const Rank rank = region[i];
    const TreeLink& link = network.links[rank.index()];
    if (link.up == no_edge || region_of[link.parent.index()] != region_of[rank.index()]) continue;
    Number& up = flow.on_edge[link.up.index()];
    Number& down = flow.on_edge[link.down.index()];
    const Number surplus = flow.load[rank.index()] - flow.limit[rank.index()];
    const Number amount = surplus > 0 ? std::min(surplus, up) : std::max<Number>(surplus, -down);
    up -= amount;
    down += amount;
    flow.load[rank.index()] -= amount;
    flow.load[link.parent.index()] += amount;
  }
}

/// Moves load along chains of replicas from ranks above their limit to ranks below theirs.
class Relief {
 public:
  struct Outcome {
    bool above = false;  ///< Some rank is above its limit, and can reach none below.
    bool below = false;  ///< Some rank is below its limit, and none above can reach it.
  };

  /// Borrows the network.
  explicit Relief(const ShareNetwork& network);

  /// Until no rank of `region` that is above its limit can reach one below, inside the region. Numbers up to
  /// `tolerance` count as 0.
  template <class Number>
  Outcome run(std::span<const Rank> region, ShareFlow<Number>& flow, Number tolerance);

  /// Whether, where the last run left something above or below, `rank` can reach a rank below its limit.
  [[nodiscard]] bool can_reach_below(Rank rank) const noexcept {
    return visits_[rank.index()].mark == round_ + 1;
  }

 private:
  struct Visit {
    std::uint64_t mark = 0;  ///< `round_` in the region, `round_` + 1 once reached.
    EdgeId own = no_edge;    ///< The edge that gives;
    EdgeId next = no_edge;   ///< and the one of the same expert that takes.
    Rank to{-1};             ///< The rank of `next`; -1 where a chain ends.
  };

  template <class Number>
  Outcome begin_round(std::span<const Rank> region, const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  void grow_forest(const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  bool push(Rank source, ShareFlow<Number>& flow, Number tolerance);
  void reach(Rank rank, EdgeId own, EdgeId next, Rank to) {
    visits_[rank.index()] = {round_ + 1, own, next, to};
    queue_.push_back(rank);
  }

  const ShareNetwork& network_;
  std::uint64_t round_ = 0;          ///< Even.
  std::vector<Visit> visits_;        ///< By Rank.
  std::vector<std::uint64_t> seen_;  ///< By SharedId: the round in which it was looked through.
  std::vector<Rank> queue_;          ///< Ranks reached, those below their limit first.
};

}  // namespace trimtab
