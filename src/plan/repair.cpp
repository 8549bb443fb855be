// SPDX-License-Identifier: Apache-2.0
#include "plan/repair.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <optional>

namespace trimtab {
namespace {

/// Breadth-first search over ranks; the step into a rank brings it one replica from the rank before.
class ChainSearch {
 public:
  ChainSearch(const RankContents& contents, const Region& region, std::size_t num_ranks)
      : contents_(contents), region_(region), steps_(num_ranks) {}

  /// Starts at every rank that could take `expert` itself.
  std::optional<Rank> find_rank_with_room(ExpertId expert) {
    for (Rank rank : region_.ranks) {
      if (!contents_.holds(rank, expert)) visit(rank, {rank, expert});
    }
    for (std::size_t i = 0; i < visited_.size(); ++i) {
      const Rank from = visited_[i];
      if (contents_.has_room(from)) return from;
      for (Rank to : region_.ranks) {
        if (!steps_[to.index()]) pass_on(from, to);
      }
    }
    return std::nullopt;
  }

  struct Step {
    Rank from;  ///< The rank itself where the chain starts.
    ExpertId brings;
  };
  [[nodiscard]] Step step_into(Rank rank) const { return *steps_[rank.index()]; }

 private:
  void visit(Rank rank, Step step) {
    steps_[rank.index()] = step;
    visited_.push_back(rank);
  }

  /// Passes on the lightest replica that fits: the packing so far is disturbed least.
  void pass_on(Rank from, Rank to) {
    const auto held = contents_.on(from);
    const auto fits = std::find_if(held.rbegin(), held.rend(),
                                   [&](ExpertId expert) { return !contents_.holds(to, expert); });
    if (fits != held.rend()) visit(to, {from, *fits});
  }

  const RankContents& contents_;
  const Region& region_;
  std::vector<std::optional<Step>> steps_;
  std::vector<Rank> visited_;
};

}  // namespace

void make_room_by_chain(RankContents& contents, const Region& region, ExpertId expert) {
  ChainSearch search(contents, region, region.ranks.back().index() + 1);
  const std::optional<Rank> with_room = search.find_rank_with_room(expert);
  TRIMTAB_ASSERT(with_room.has_value());
  for (Rank rank = *with_room;;) {
    const ChainSearch::Step step = search.step_into(rank);
    if (step.from != rank) contents.remove(step.from, step.brings);
    contents.add(rank, step.brings);
    if (step.from == rank) return;
    rank = step.from;
  }
}

}  // namespace trimtab
