// SPDX-License-Identifier: Apache-2.0
#include "plan/holders.hpp"

namespace trimtab {

Holders::Holders(Row row, std::int32_t num_experts, const Topology& topology)
    : first_(static_cast<std::size_t>(num_experts) + 2, 0) {
  const auto for_each_live = [&](auto visit) {
    for (SlotId slot : ids<SlotId>(row.size())) {
      if (row[slot.index()] != no_expert && topology.is_alive(slot)) visit(slot, row[slot.index()].index());
    }
  };
  // Counted two places up, so that filling leaves each entry at its own beginning.
  for_each_live([&](SlotId, std::size_t expert) { ++first_[expert + 2]; });
  for (std::size_t e = 1; e < first_.size(); ++e) first_[e] += first_[e - 1];
  ranks_.resize(first_.back());
  for_each_live(
      [&](SlotId slot, std::size_t expert) { ranks_[first_[expert + 1]++] = topology.rank_of(slot); });
  first_.pop_back();
}

}  // namespace trimtab
