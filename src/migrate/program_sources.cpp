// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_sources.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace trimtab {

void Holders::rebuild(std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology) {
  const auto counts = [&](SlotId slot) { return row[slot.index()] != no_expert && topology.is_alive(slot); };
  first_.assign(static_cast<std::size_t>(num_experts) + 1, 0);
  const auto slots = ids<SlotId>(row.size());
  for (SlotId slot : slots) {
    if (counts(slot)) ++first_[row[slot.index()].index()];
  }
  std::size_t end = 0;
  for (std::size_t& at : first_) at = (end += at);
  slots_.resize(end);
  for (std::size_t s = row.size(); s-- > 0;) {
    const SlotId slot{static_cast<std::int32_t>(s)};
    if (counts(slot)) slots_[--first_[row[s].index()]] = slot;
  }
}

std::span<const SlotId> Holders::of(ExpertId expert) const noexcept {
  const std::size_t begin = first_[expert.index()];
  return std::span(slots_).subspan(begin, first_[expert.index() + 1] - begin);
}

SlotId Holders::first_in(ExpertId expert, IdRange<SlotId> slots) const noexcept {
  const auto holders = of(expert);
  const auto found = std::ranges::lower_bound(holders, slots.first());
  return found != holders.end() && slots.contains(*found) ? *found : no_slot;
}

SourceChooser::SourceChooser(const ProgramInput& input)
    : input_(input), sent_bytes_(static_cast<std::size_t>(input.topology.num_ranks()), 0) {}

void SourceChooser::choose(LayerId layer, std::span<const ExpertId> row, std::span<const SlotId> fills,
                           std::vector<Move>& moves) {
  holders_.rebuild(row, input_.to.num_experts(), input_.topology);
  sorted_.assign(fills.begin(), fills.end());
  const auto expert_of = [&](SlotId slot) { return input_.to.expert_at(layer, slot); };
  std::ranges::sort(sorted_, {}, [&](SlotId slot) { return std::pair(expert_of(slot), slot); });
  for (std::size_t begin = 0; begin < sorted_.size();) {
    const ExpertId expert = expert_of(sorted_[begin]);
    std::size_t end = begin + 1;
    while (end < sorted_.size() && expert_of(sorted_[end]) == expert) ++end;
    choose_expert(layer, expert, std::span(sorted_).subspan(begin, end - begin), moves);
    begin = end;
  }
}

/// The slots of one rank follow each other, so the first that lacks a local source is the one that receives.
void SourceChooser::choose_expert(LayerId layer, ExpertId expert, std::span<const SlotId> fills,
                                  std::vector<Move>& moves) {
  const Topology& topology = input_.topology;
  arrivals_.clear();
  for (SlotId slot : fills) {
    const Rank rank = topology.rank_of(slot);
    const SlotId local = holders_.first_in(expert, topology.slots_of(rank));
    if (local != no_slot) {
      moves.push_back({layer, expert, local, slot, MoveKind::local_copy});
    } else if (!arrivals_.empty() && topology.rank_of(arrivals_.back()) == rank) {
      moves.push_back({layer, expert, arrivals_.back(), slot, MoveKind::reuse});
    } else {
      arrivals_.push_back(slot);
    }
  }
  receive(layer, expert, moves);
}

void SourceChooser::receive(LayerId layer, ExpertId expert, std::vector<Move>& moves) {
  std::ranges::stable_sort(arrivals_, {}, [&](SlotId slot) { return node_of(slot); });
  for (auto begin = arrivals_.begin(); begin != arrivals_.end();) {
    const NodeId node = node_of(*begin);
    const auto end = std::find_if(begin, arrivals_.end(), [&](SlotId slot) { return node_of(slot) != node; });
    near_.clear();
    std::ranges::copy_if(holders_.of(expert), std::back_inserter(near_),
                         [&](SlotId slot) { return node_of(slot) == node; });
    if (near_.empty()) reach(layer, expert, std::span(begin, end), moves);
    for (auto at = begin; !near_.empty() && at != end; ++at) {
      const SlotId source = least_sender(near_);
      moves.push_back({layer, expert, source, *at, MoveKind::transfer});
      count_sent(source, layer);
    }
    begin = end;
  }
}

/// What was lost when the program began is read on every node, also when an earlier step has brought it back
/// on another one.
void SourceChooser::reach(LayerId layer, ExpertId expert, std::span<const SlotId> arrivals,
                          std::vector<Move>& moves) {
  const bool is_lost = std::ranges::none_of(input_.from.replicas(layer, expert),
                                            [&](SlotId slot) { return input_.topology.is_alive(slot); });
  is_lost ? recover(layer, expert, arrivals, moves) : cross(layer, expert, arrivals, moves);
}

/// One rank of the node receives from afar and relays to the others.
void SourceChooser::cross(LayerId layer, ExpertId expert, std::span<const SlotId> arrivals,
                          std::vector<Move>& moves) {
  const SlotId source = least_sender(holders_.of(expert));
  const SlotId gate = least_sender(arrivals);
  count_sent(source, layer);
  for (SlotId slot : arrivals) {
    const bool is_gate = slot == gate;
    const MoveKind kind = is_gate ? MoveKind::transfer : MoveKind::relay;
    moves.push_back({layer, expert, is_gate ? source : gate, slot, kind});
    if (!is_gate) count_sent(gate, layer);
  }
}

/// One rank of the node reads it and relays to the others.
void SourceChooser::recover(LayerId layer, ExpertId expert, std::span<const SlotId> arrivals,
                            std::vector<Move>& moves) {
  const SlotId gate = least_sender(arrivals);
  for (SlotId slot : arrivals) {
    const bool is_gate = slot == gate;
    const MoveKind kind = is_gate ? MoveKind::recover : MoveKind::relay;
    moves.push_back({layer, expert, is_gate ? no_slot : gate, slot, kind});
    if (!is_gate) count_sent(gate, layer);
  }
}

SlotId SourceChooser::least_sender(std::span<const SlotId> slots) const {
  TRIMTAB_ASSERT(!slots.empty());
  return *std::ranges::min_element(slots, {}, [&](SlotId slot) {
    return std::pair(sent_bytes_[input_.topology.rank_of(slot).index()], slot);
  });
}

void SourceChooser::count_sent(SlotId source, LayerId layer) {
  sent_bytes_[input_.topology.rank_of(source).index()] += input_.bundle_bytes[layer.index()];
}

NodeId SourceChooser::node_of(SlotId slot) const noexcept {
  return input_.topology.node_of(input_.topology.rank_of(slot));
}

}  // namespace trimtab
