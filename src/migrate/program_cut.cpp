// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_cut.hpp"

#include <algorithm>
#include <iterator>

namespace trimtab {

LayerCutter::LayerCutter(const ProgramInput& input, LayerId layer)
    : input_(input),
      layer_(layer),
      bytes_(input.bundle_bytes[layer.index()]),
      row_(input.from.layer(layer).begin(), input.from.layer(layer).end()),
      holdings_(row_, input.to.layer(layer), input.to.num_experts(), input.topology),
      states_(row_.size(), SlotState::settled),
      walks_(row_.size(), 0),
      visits_(static_cast<std::size_t>(input.topology.num_ranks()), 0) {
  for (SlotId slot : ids<SlotId>(row_.size())) {
    const ExpertId goal = input.to.expert_at(layer, slot);
    if (goal == row_[slot.index()] || goal == no_expert) continue;
    pending_.push_back(slot);
    states_[slot.index()] = SlotState::pending;
  }
}

LayerPart LayerCutter::next(StepRoom& room) {
  LayerPart part;
  holders_.rebuild(layer_, row_, input_);
  do fill_free(room, part);
  while (fill_cycles(room, part));
  if (!is_stuck()) return part;
  for (Cycle& cycle : find_cycles()) exchange_inside(std::move(cycle), room, part);
  return part;
}

void LayerCutter::commit(const LayerPart& part) {
  for (SlotId slot : part.fills) row_[slot.index()] = input_.to.expert_at(layer_, slot);
  for (const Exchange& exchange : part.exchanges)
    std::swap(row_[exchange.first.index()], row_[exchange.second.index()]);
  std::erase_if(pending_, [&](SlotId slot) {
    const bool is_settled = row_[slot.index()] == input_.to.expert_at(layer_, slot);
    states_[slot.index()] = is_settled ? SlotState::settled : SlotState::pending;
    return is_settled;
  });
}

/// A slot that is filled may set those free that hold the same expert, so they are looked at again.
void LayerCutter::fill_free(StepRoom& room, LayerPart& part) {
  std::vector<SlotId> work = pending_;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const SlotId slot = work[i];
    if (states_[slot.index()] != SlotState::pending || is_blocked(slot)) continue;
    if (!room.fits(input_.topology.rank_of(slot), bytes_, 1)) continue;
    take(slot, room, part);
    std::ranges::copy(holders_.of(input_.to.expert_at(layer_, slot)), std::back_inserter(work));
  }
}

bool LayerCutter::fill_cycles(StepRoom& room, LayerPart& part) {
  bool any = false;
  for (const Cycle& cycle : find_cycles()) {
    if (!fits(cycle, room)) continue;
    for (SlotId slot : cycle) take(slot, room, part);
    any = true;
  }
  return any;
}

/// Halves that still visit a rank too often are cut again, on ranks that have room in this step; the cycles
/// that result are written by later steps.
void LayerCutter::exchange_inside(Cycle cycle, StepRoom& room, LayerPart& part) {
  std::vector<Cycle> open;
  open.push_back(std::move(cycle));
  while (!open.empty()) {
    Cycle whole = std::move(open.back());
    open.pop_back();
    const auto cut = find_cut(whole, room);
    if (!cut) continue;
    const auto [first, second] = *cut;
    for (std::size_t at : {first, second}) states_[whole[at].index()] = SlotState::taken;
    part.exchanges.push_back({whole[first], whole[second]});
    room.take_exchange(input_.topology.rank_of(whole[first]), bytes_);
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first) + 1;
    const auto end = whole.begin() + static_cast<std::ptrdiff_t>(second) + 1;
    open.emplace_back(begin, end);
    whole.erase(begin, end);
    open.push_back(std::move(whole));
  }
}

void LayerCutter::take(SlotId slot, StepRoom& room, LayerPart& part) {
  states_[slot.index()] = SlotState::taken;
  if (row_[slot.index()] != no_expert) holdings_.remove(row_[slot.index()], slot);
  holdings_.add(input_.to.expert_at(layer_, slot), slot);
  room.take(input_.topology.rank_of(slot), bytes_, 1);
  part.fills.push_back(slot);
}

bool LayerCutter::is_blocked(SlotId slot) const {
  const ExpertId expert = row_[slot.index()];
  return expert != no_expert && holdings_.is_last(expert, slot);
}

bool LayerCutter::is_stuck() const {
  return std::ranges::all_of(
      pending_, [&](SlotId slot) { return states_[slot.index()] == SlotState::taken || is_blocked(slot); });
}

/// The blocked slot that must be written before `slot`, or with it; no_slot when that one is not blocked.
SlotId LayerCutter::successor(SlotId slot) const {
  const ExpertId expert = row_[slot.index()];
  for (SlotId other : input_.to.replicas(layer_, expert)) {
    if (states_[other.index()] == SlotState::pending && holdings_.is_substitute(expert, slot, other))
      return is_blocked(other) ? other : no_slot;
  }
  return no_slot;
}

/// In the order in which bundles travel: what a slot holds goes to the next one.
std::vector<LayerCutter::Cycle> LayerCutter::find_cycles() {
  std::vector<Cycle> cycles;
  std::ranges::fill(walks_, 0U);
  std::uint32_t walk = 0;
  for (SlotId start : pending_) {
    if (states_[start.index()] != SlotState::pending || !is_blocked(start)) continue;
    ++walk;
    SlotId at = start;
    for (; at != no_slot && walks_[at.index()] == 0; at = successor(at)) walks_[at.index()] = walk;
    if (at == no_slot || walks_[at.index()] != walk) continue;
    Cycle& cycle = cycles.emplace_back(1, at);
    for (SlotId next = successor(at); next != at; next = successor(next)) cycle.push_back(next);
  }
  return cycles;
}

bool LayerCutter::fits(const Cycle& cycle, const StepRoom& room) {
  count_visits(cycle);
  return std::ranges::all_of(cycle, [&](SlotId slot) {
    const Rank rank = input_.topology.rank_of(slot);
    return room.fits(rank, bytes_, visits_[rank.index()]);
  });
}

/// Two places of the cycle on a rank that it visits too often: as many visits between them as a step can
/// take.
std::optional<std::pair<std::size_t, std::size_t>> LayerCutter::find_cut(const Cycle& cycle,
                                                                         const StepRoom& room) {
  count_visits(cycle);
  const std::size_t limit = room.max_count(bytes_);
  for (std::size_t first = 0; first < cycle.size(); ++first) {
    const Rank rank = input_.topology.rank_of(cycle[first]);
    if (visits_[rank.index()] <= limit || !room.fits_exchange(rank, bytes_)) continue;
    if (states_[cycle[first].index()] == SlotState::taken) continue;
    std::size_t second = first;
    std::size_t between = 0;
    for (std::size_t at = first + 1; at < cycle.size() && between < limit; ++at) {
      if (input_.topology.rank_of(cycle[at]) != rank || states_[cycle[at].index()] == SlotState::taken)
        continue;
      second = at;
      ++between;
    }
    if (second != first) return std::pair(first, second);
  }
  return std::nullopt;
}

void LayerCutter::count_visits(const Cycle& cycle) {
  for (SlotId slot : cycle) visits_[input_.topology.rank_of(slot).index()] = 0;
  for (SlotId slot : cycle) ++visits_[input_.topology.rank_of(slot).index()];
}

}  // namespace trimtab
