// SPDX-License-Identifier: Apache-2.0
#include "plan/packing.hpp"

#include <utility>

namespace trimtab {

Packing::Packing(LayerLoads loads, const Topology& topology, Row row) : loads_(loads), topology_(&topology) {
  reset(row);
}

void Packing::reset(Row row) {
  row_.assign(row.begin(), row.end());
  next_.assign(row.size(), no_slot);
  first_.assign(loads_.size(), no_slot);
  copies_.assign(loads_.size(), 0);
  share_.assign(loads_.begin(), loads_.end());
  rank_load_.assign(static_cast<std::size_t>(topology_->num_ranks()), 0.0);
  for (SlotId slot : ids<SlotId>(row_.size())) {
    const ExpertId expert = row_[slot.index()];
    if (expert == no_expert) continue;
    link(slot, expert);
    ++copies_[expert.index()];
  }
  for (std::size_t e = 0; e < share_.size(); ++e) {
    if (copies_[e] > 0) share_[e] /= copies_[e];
  }
  for (SlotId slot : ids<SlotId>(row_.size())) {
    if (expert_at(slot) != no_expert) rank_load_[rank_of(slot).index()] += share(expert_at(slot));
  }
}

bool Packing::holds(Rank rank, ExpertId expert) const noexcept {
  for (SlotId slot = first_[expert.index()]; slot != no_slot; slot = next_[slot.index()]) {
    if (rank_of(slot) == rank) return true;
  }
  return false;
}

void Packing::link(SlotId slot, ExpertId expert) {
  next_[slot.index()] = std::exchange(first_[expert.index()], slot);
}

void Packing::unlink(SlotId slot) {
  SlotId* at = &first_[expert_at(slot).index()];
  while (*at != slot) at = &next_[at->index()];
  *at = next_[slot.index()];
}

void Packing::reshare(ExpertId expert, std::int32_t copies) {
  copies_[expert.index()] = copies;
  const double share = copies > 0 ? load(expert) / copies : load(expert);
  const double change = share - std::exchange(share_[expert.index()], share);
  for_each_replica(expert, [&](SlotId slot) { rank_load_[rank_of(slot).index()] += change; });
}

void Packing::put(SlotId slot, ExpertId expert) {
  double& rank_load = rank_load_[rank_of(slot).index()];
  if (const ExpertId old = expert_at(slot); old != no_expert) {
    unlink(slot);
    rank_load -= share(old);
    reshare(old, copies(old) - 1);
  }
  row_[slot.index()] = expert;
  if (expert == no_expert) return;
  reshare(expert, copies(expert) + 1);
  link(slot, expert);
  rank_load += share(expert);
}

void Packing::swap(SlotId a, SlotId b) {
  if (a == b) return;
  const ExpertId at_a = expert_at(a);
  const ExpertId at_b = expert_at(b);
  const auto move = [this](SlotId from, SlotId to, ExpertId expert) {
    if (expert == no_expert) return;
    rank_load_[rank_of(from).index()] -= share(expert);
    rank_load_[rank_of(to).index()] += share(expert);
  };
  if (at_a != no_expert) unlink(a);
  if (at_b != no_expert) unlink(b);
  move(a, b, at_a);
  move(b, a, at_b);
  row_[a.index()] = at_b;
  row_[b.index()] = at_a;
  if (at_b != no_expert) link(a, at_b);
  if (at_a != no_expert) link(b, at_a);
}

Rank fullest_rank(const Packing& packing, std::span<const Rank> ranks) {
  Rank fullest = ranks.front();
  for (Rank rank : ranks) {
    if (packing.pressure(rank) > packing.pressure(fullest)) fullest = rank;
  }
  return fullest;
}

}  // namespace trimtab
