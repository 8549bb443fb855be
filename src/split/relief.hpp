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
  /// From the rank of one edge to that of another of the same expert.
  void move(const ShareNetwork& network, EdgeId from, EdgeId to, Number amount) {
    on_edge[from.index()] -= amount;
    on_edge[to.index()] += amount;
    load[network.rank_of[from.index()].index()] -= amount;
    load[network.rank_of[to.index()].index()] += amount;
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
    const EdgeId up = network.up[rank.index()];
    if (up == no_edge) continue;
    const EdgeId down = network.down[rank.index()];
    if (region_of[network.rank_of[down.index()].index()] != region_of[rank.index()]) continue;
    const Number surplus = flow.load[rank.index()] - flow.limit[rank.index()];
    if (surplus > 0) {
      flow.move(network, up, down, std::min(surplus, flow.on_edge[up.index()]));
    } else {
      flow.move(network, down, up, std::min(-surplus, flow.on_edge[down.index()]));
    }
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
  [[nodiscard]] bool can_reach_below(Rank rank) const noexcept { return mark_[rank.index()] == round_ + 1; }

 private:
  template <class Number>
  Outcome begin_round(std::span<const Rank> region, const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  void grow_forest(const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  bool push(Rank source, ShareFlow<Number>& flow, Number tolerance);
  void reach(Rank rank, EdgeId own, EdgeId next);

  const ShareNetwork& network_;
  std::uint64_t round_ = 0;  ///< Even. A rank of the region has mark `round_`, `round_` + 1 once reached.
  std::vector<std::uint64_t> mark_;  ///< By Rank.
  std::vector<std::uint64_t> seen_;  ///< By SharedId: the round in which it was looked through.
  std::vector<EdgeId> own_, next_;   ///< By Rank reached: the edge that gives and the one that takes.
  std::vector<Rank> queue_;          ///< Ranks reached, those below their limit first.
};

}  // namespace trimtab
