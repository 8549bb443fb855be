// SPDX-License-Identifier: Apache-2.0
#include "plan/split_flow.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// In units of the mean rank load: what is less is rounding.
constexpr double nothing = 1e-13;
constexpr SlotId no_slot_here{-1};

}  // namespace

SplitFlow::SplitFlow(LayerLoads loads, const Packing& packing, const Region& region)
    : packing_(packing),
      region_(region),
      load_(loads.size(), 0.0),
      expert_seen_(loads.size(), 0),
      rank_seen_(static_cast<std::size_t>(packing.topology().num_ranks()), 0),
      expert_via_(loads.size(), no_slot_here),
      rank_via_(rank_seen_.size(), no_slot_here) {
  const double mean = load_of(region.experts, loads) / speed_of(region.ranks, packing.topology());
  for (ExpertId e : region.experts) load_[e.index()] = mean > 0.0 ? loads[e.index()] / mean : 0.0;
  state_.flow.resize(packing.row().size());
  state_.room.resize(rank_seen_.size());
  state_.tight_experts.reserve(region.experts.size());
  state_.tight_ranks.reserve(region.ranks.size());
}

void SplitFlow::reset(double level) {
  level_ = level;
  std::fill(state_.flow.begin(), state_.flow.end(), 0.0);
  state_.left = load_;
  for (Rank rank : region_.ranks) state_.room[rank.index()] = level * packing_.speed(rank);
  start();
  settle();
}

// Experts of one rank first, they have no choice; then even shares as far as there is room.
void SplitFlow::start() {
  const auto give = [&](ExpertId e, SlotId slot, double most) {
    double& room = state_.room[packing_.rank_of(slot).index()];
    const double taken = std::max(0.0, std::min({most, room, state_.left[e.index()]}));
    state_.flow[slot.index()] += taken;
    state_.left[e.index()] -= taken;
    room -= taken;
  };
  for (ExpertId e : region_.experts) {
    if (packing_.copies(e) == 1) {
      packing_.for_each_replica(e, [&](SlotId slot) { give(e, slot, load_[e.index()]); });
    }
  }
  for (ExpertId e : region_.experts) {
    const double share = load_[e.index()] / packing_.copies(e);
    for (const double most : {share, load_[e.index()]}) {
      packing_.for_each_replica(e, [&](SlotId slot) { give(e, slot, most); });
    }
  }
}

void SplitFlow::release(SlotId slot) {
  const ExpertId expert = packing_.expert_at(slot);
  if (expert == no_expert) return;
  double& flow = state_.flow[slot.index()];
  state_.left[expert.index()] += flow;
  state_.room[packing_.rank_of(slot).index()] += flow;
  flow = 0.0;
}

void SplitFlow::settle() {
  while (augment()) {
  }
  state_.deficit = 0.0;
  for (ExpertId e : region_.experts) state_.deficit += std::max(0.0, state_.left[e.index()]);
  if (state_.tight_experts.empty()) state_.deficit = 0.0;
}

// Breadth first from all load that is left over, to the first rank with room.
bool SplitFlow::augment() {
  ++stamp_;
  state_.tight_experts.clear();
  state_.tight_ranks.clear();
  for (ExpertId e : region_.experts) {
    if (state_.left[e.index()] <= nothing) continue;
    expert_seen_[e.index()] = stamp_;
    expert_via_[e.index()] = no_slot_here;
    state_.tight_experts.push_back(e);
  }
  std::size_t next_rank = 0;
  for (std::size_t next = 0; next < state_.tight_experts.size(); ++next) {
    if (visit_expert(state_.tight_experts[next])) return true;
    for (; next_rank < state_.tight_ranks.size(); ++next_rank) visit_rank(state_.tight_ranks[next_rank]);
  }
  return false;
}

bool SplitFlow::visit_expert(ExpertId expert) {
  Rank open{-1};
  packing_.for_each_replica(expert, [&](SlotId slot) {
    const Rank rank = packing_.rank_of(slot);
    if (rank_seen_[rank.index()] == stamp_) return;
    rank_seen_[rank.index()] = stamp_;
    rank_via_[rank.index()] = slot;
    state_.tight_ranks.push_back(rank);
    if (state_.room[rank.index()] > nothing) open = rank;
  });
  if (open.value() < 0) return false;
  push_to(open);
  return true;
}

void SplitFlow::visit_rank(Rank rank) {
  for (SlotId slot : packing_.topology().slots_of(rank)) {
    if (state_.flow[slot.index()] <= nothing) continue;
    const ExpertId expert = packing_.expert_at(slot);
    if (expert_seen_[expert.index()] == stamp_) continue;
    expert_seen_[expert.index()] = stamp_;
    expert_via_[expert.index()] = slot;
    state_.tight_experts.push_back(expert);
  }
}

void SplitFlow::push_to(Rank rank) {
  double amount = state_.room[rank.index()];
  ExpertId source = packing_.expert_at(rank_via_[rank.index()]);
  for (; expert_via_[source.index()] != no_slot_here;) {
    const SlotId back = expert_via_[source.index()];
    amount = std::min(amount, state_.flow[back.index()]);
    source = packing_.expert_at(rank_via_[packing_.rank_of(back).index()]);
  }
  amount = std::min(amount, state_.left[source.index()]);
  state_.left[source.index()] -= amount;
  state_.room[rank.index()] -= amount;
  for (Rank at = rank;;) {
    const SlotId forward = rank_via_[at.index()];
    state_.flow[forward.index()] += amount;
    const SlotId back = expert_via_[packing_.expert_at(forward).index()];
    if (back == no_slot_here) return;
    state_.flow[back.index()] -= amount;
    at = packing_.rank_of(back);
  }
}

void SplitFlow::restore() {
  state_ = saved_;
  ++stamp_;
  for (Rank rank : state_.tight_ranks) rank_seen_[rank.index()] = stamp_;
}

void SplitFlow::raise_level(double level) {
  for (Rank rank : region_.ranks) state_.room[rank.index()] += (level - level_) * packing_.speed(rank);
  level_ = level;
}

// Discrete Newton: the load of the tight experts lies on the tight ranks, whatever the shares.
double SplitFlow::find_optimum() {
  reset(1.0);
  while (!state_.tight_experts.empty()) {
    double load = 0.0;
    for (ExpertId e : state_.tight_experts) load += load_[e.index()];
    const double level = load / speed_of(state_.tight_ranks, packing_.topology());
    if (!(level > level_)) return level_;
    raise_level(level);
    settle();
  }
  return level_;
}

}  // namespace trimtab
