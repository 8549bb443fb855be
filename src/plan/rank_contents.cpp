// SPDX-License-Identifier: Apache-2.0
#include "plan/rank_contents.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>

namespace trimtab {

RankContents::RankContents(LayerLoads loads, std::span<const std::int32_t> counts, const Topology& topology)
    : share_(loads.begin(), loads.end()),
      holds_(loads.size() * static_cast<std::size_t>(topology.num_ranks()), 0),
      ranks_(static_cast<std::size_t>(topology.num_ranks())) {
  for (std::size_t e = 0; e < share_.size(); ++e) {
    if (counts[e] > 0) share_[e] /= counts[e];
  }
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    Contents& contents = ranks_[rank.index()];
    contents.speed = topology.rank(rank).speed;
    contents.num_slots = static_cast<std::size_t>(topology.rank(rank).num_slots);
    contents.experts.reserve(contents.num_slots);
  }
}

bool RankContents::sorts_before(ExpertId a, ExpertId b) const noexcept {
  if (share(a) != share(b)) return share(a) > share(b);
  return a < b;
}

// Summed anew, in order of the experts held: the load depends on what lies there, not on how it got there.
void RankContents::sum_load(Contents& contents) const noexcept {
  contents.load = 0.0;
  for (ExpertId expert : contents.experts) contents.load += share(expert);
}

void RankContents::add(Rank rank, ExpertId expert) {
  TRIMTAB_ASSERT(has_room(rank));
  Contents& contents = ranks_[rank.index()];
  const auto less = [this](ExpertId a, ExpertId b) { return sorts_before(a, b); };
  const auto at = std::upper_bound(contents.experts.begin(), contents.experts.end(), expert, less);
  const bool is_last = at == contents.experts.end();
  contents.experts.insert(at, expert);
  holds_[rank.index() * share_.size() + expert.index()] = 1;
  if (is_last) {
    contents.load += share(expert);
  } else {
    sum_load(contents);
  }
}

void RankContents::remove(Rank rank, ExpertId expert) {
  Contents& contents = ranks_[rank.index()];
  const auto at = std::find(contents.experts.begin(), contents.experts.end(), expert);
  TRIMTAB_ASSERT(at != contents.experts.end());
  contents.experts.erase(at);
  holds_[rank.index() * share_.size() + expert.index()] = 0;
  sum_load(contents);
}

}  // namespace trimtab
