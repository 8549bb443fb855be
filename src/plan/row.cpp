// SPDX-License-Identifier: Apache-2.0
#include "plan/row.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {

std::int32_t count_duplicates(Row row, const Topology& topology) {
  constexpr Rank nowhere{-1};
  std::vector<Rank> last_seen;  // by ExpertId
  std::int32_t duplicates = 0;
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert) continue;
    if (expert.index() >= last_seen.size()) last_seen.resize(expert.index() + 1, nowhere);
    const Rank rank = topology.rank_of(slot);
    if (std::exchange(last_seen[expert.index()], rank) == rank) ++duplicates;
  }
  return duplicates;
}

bool is_live(Row row, std::int32_t num_experts, const Topology& topology) {
  std::vector<bool> live(static_cast<std::size_t>(num_experts), false);
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] != no_expert && topology.is_alive(slot)) live[row[slot.index()].index()] = true;
  }
  return std::find(live.begin(), live.end(), false) == live.end();
}

bool keeps_groups_together(Row row, std::int32_t num_experts, std::int32_t num_groups,
                           const Topology& topology) {
  constexpr NodeId unknown{-1};
  std::vector<NodeId> node_of(static_cast<std::size_t>(num_groups), unknown);
  std::vector<std::int32_t> groups_on(static_cast<std::size_t>(topology.num_nodes()), 0);
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] == no_expert || !topology.is_alive(slot)) continue;
    const NodeId node = topology.node_of(topology.rank_of(slot));
    NodeId& home = node_of[row[slot.index()].index() / static_cast<std::size_t>(num_experts / num_groups)];
    if (home == unknown) ++groups_on[node.index()];
    if (home != unknown && home != node) return false;
    home = node;
  }
  const std::int32_t share = num_groups / topology.num_nodes();
  return std::all_of(groups_on.begin(), groups_on.end(), [&](std::int32_t n) { return n == share; });
}

std::vector<ExpertId> identity_row(std::int32_t num_experts, const Topology& topology, bool only_live) {
  std::vector<ExpertId> row;
  for (SlotId slot : ids<SlotId>(topology.num_slots())) {
    const bool is_vacant = only_live && !topology.is_alive(slot);
    row.push_back(is_vacant ? no_expert : ExpertId{slot.value() % num_experts});
  }
  return row;
}

}  // namespace trimtab
