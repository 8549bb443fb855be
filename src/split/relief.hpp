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
  /// Borrows the network.
  explicit Relief(const ShareNetwork& network);

  /// Until no rank of `region` that is above its limit can reach one below, inside the region. Numbers up to
  /// `tolerance` count as 0. Returns whether some rank is above still; then `is_upper` divides the region.
  template <class Number>
  bool run(std::span<const Rank> region, ShareFlow<Number>& flow, Number tolerance);

  /// Of a region with ranks above after the last run: the ranks above are upper, those below are not, and
  /// load cannot move from an upper rank to another.
  [[nodiscard]] bool is_upper(Rank rank) const noexcept {
    return (visits_[rank.index()].mark == round_ + 1) == is_forward_;
  }

 private:
  struct Visit {
    std::uint64_t mark = 0;  ///< `round_` in the region, `round_` + 1 once reached.
    EdgeId gives = no_edge;  ///< The step between this rank and `towards`: the edge that gives,
    EdgeId takes = no_edge;  ///< and the one of the same expert that takes.
    Rank towards{-1};        ///< The next rank on the way to the root of its tree; -1 at a root.
    bool is_wanted = false;  ///< A rank that trees are grown for.
  };

  template <class Number>
  bool begin_round(std::span<const Rank> region, const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  void grow_from_above(const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  void grow_from_below(const ShareFlow<Number>& flow, Number tolerance);
  template <class Number>
  bool push(Rank leaf, ShareFlow<Number>& flow, Number tolerance);

  void reach(Rank rank, EdgeId gives, EdgeId takes, Rank towards) {
    Visit& visit = visits_[rank.index()];
    if (visit.is_wanted) leaves_.push_back(rank);
    visit = {round_ + 1, gives, takes, towards, visit.is_wanted};
    queue_.push_back(rank);
  }

  const ShareNetwork& network_;
  std::uint64_t round_ = 0;  ///< Even.
  bool is_forward_ = false;  ///< Trees are rooted at ranks above; else at ranks below.
  std::size_t num_wanted_ = 0;
  std::vector<Visit> visits_;        ///< By Rank.
  std::vector<std::uint64_t> seen_;  ///< By SharedId: the round in which it was looked through.
  std::vector<Rank> queue_;          ///< Ranks reached, roots first.
  std::vector<Rank> leaves_;         ///< Wanted ranks that were reached, nearest first.
  std::vector<Rank> above_, below_;
};

}  // namespace trimtab
