// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_holdings.hpp"

namespace trimtab {

Holdings::Holdings(std::span<const ExpertId> row, std::span<const ExpertId> goal, std::int32_t num_experts,
                   const Topology& topology)
    : topology_(topology), num_experts_(static_cast<std::uint64_t>(num_experts)) {
  counts_.reserve(6 * row.size());
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (!topology.is_alive(slot)) continue;
    if (row[slot.index()] != no_expert) add(row[slot.index()], slot);
    const ExpertId needed = goal[slot.index()];
    if (needed == no_expert) continue;
    for (Group group : {rank_group(slot), node_group(slot)}) counts_[key(group, needed)].is_needed = true;
  }
}

bool Holdings::is_last(ExpertId expert, SlotId slot) const {
  return counts_.at(key(keeping_group(expert, slot), expert)).num_held == 1;
}

bool Holdings::is_substitute(ExpertId expert, SlotId slot, SlotId other) const {
  const Group group = keeping_group(expert, slot);
  return group == whole_group() || group == rank_group(other) || group == node_group(other);
}

Holdings::Group Holdings::rank_group(SlotId slot) const noexcept { return topology_.rank_of(slot).index(); }

Holdings::Group Holdings::node_group(SlotId slot) const noexcept {
  return static_cast<std::uint64_t>(topology_.num_ranks()) +
         topology_.node_of(topology_.rank_of(slot)).index();
}

Holdings::Group Holdings::whole_group() const noexcept {
  return static_cast<std::uint64_t>(topology_.num_ranks()) +
         static_cast<std::uint64_t>(topology_.num_nodes());
}

Holdings::Group Holdings::keeping_group(ExpertId expert, SlotId slot) const {
  if (needs(rank_group(slot), expert)) return rank_group(slot);
  if (needs(node_group(slot), expert)) return node_group(slot);
  return whole_group();
}

std::uint64_t Holdings::key(Group group, ExpertId expert) const noexcept {
  return group * num_experts_ + expert.index();
}

bool Holdings::needs(Group group, ExpertId expert) const {
  const auto found = counts_.find(key(group, expert));
  return found != counts_.end() && found->second.is_needed;
}

void Holdings::change(ExpertId expert, SlotId slot, std::int32_t by) {
  for (Group group : {rank_group(slot), node_group(slot), whole_group()})
    counts_[key(group, expert)].num_held += by;
}

}  // namespace trimtab
