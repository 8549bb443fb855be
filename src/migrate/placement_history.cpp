// SPDX-License-Identifier: Apache-2.0
#include "migrate/placement_history.hpp"

#include <algorithm>

namespace trimtab {

const Placement* PlacementHistory::find(Epoch epoch) const noexcept {
  const auto found = std::ranges::find(placements_, epoch, &std::pair<Epoch, Placement>::first);
  return found == placements_.end() ? nullptr : &found->second;
}

void PlacementHistory::push(Placement placement) {
  placements_.emplace_back(Epoch{epoch().value() + 1}, std::move(placement));
}

void PlacementHistory::forget_before(Epoch oldest) {
  while (placements_.size() > 1 && placements_.front().first < oldest) placements_.pop_front();
}

}  // namespace trimtab
