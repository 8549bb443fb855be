// SPDX-License-Identifier: Apache-2.0
#include "plan/rank_contents.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>

namespace trimtab {

RankContents::RankContents(LayerLoads loads, std::span<const std::int32_t> counts, const Topology& topology)
    : share_(loads.begin(), loads.end()),
      row_(static_cast<std::size_t>(topology.num_slots()), no_expert),
      ranks_(static_cast<std::size_t>(topology.num_ranks())) {
  for (std::size_t e = 0; e < share_.size(); ++e) {
    if (counts[e] > 1) share_[e] /= counts[e];
  }
  std::size_t first_slot = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const auto num_slots = static_cast<std::size_t>(topology.rank(rank).num_slots);
    ranks_[rank.index()] = {0.0, topology.rank(rank).speed, first_slot, 0, num_slots};
    first_slot += num_slots;
  }
}

bool RankContents::holds(Rank rank, ExpertId expert) const noexcept {
  const auto held = on(rank);
  return std::find(held.begin(), held.end(), expert) != held.end();
}

void RankContents::add(Rank rank, ExpertId expert) {
  TRIMTAB_ASSERT(has_room(rank));
  Contents& contents = ranks_[rank.index()];
  row_[contents.first_slot + contents.num_held++] = expert;
  contents.load += share(expert);
}

void RankContents::remove(Rank rank, ExpertId expert) {
  Contents& contents = ranks_[rank.index()];
  const auto first = row_.begin() + static_cast<std::ptrdiff_t>(contents.first_slot);
  const auto last = first + static_cast<std::ptrdiff_t>(contents.num_held);
  const auto at = std::find(first, last, expert);
  TRIMTAB_ASSERT(at != last);
  std::move(at + 1, last, at);
  *(last - 1) = no_expert;
  --contents.num_held;
  contents.load -= share(expert);
}

}  // namespace trimtab
