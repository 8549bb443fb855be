// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_start.hpp"

#include "plan/align_rank.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// What `rank` held, slot by slot; nothing where it was dead or did not exist.
Row contents_before(const RankedRow& before, Rank rank) {
  if (rank.value() >= before.topology.num_ranks() || !before.topology.is_alive(rank)) return {};
  const auto slots = before.topology.slots_of(rank);
  return before.row.subspan(slots.first().index(), slots.size());
}

/// On ranks that live on.
std::vector<std::int32_t> count_copies(const RankedRow& before, std::size_t num_experts,
                                       const Topology& topology) {
  std::vector<std::int32_t> copies(num_experts, 0);
  for (Rank rank : usable_ranks(topology)) {
    for (ExpertId expert : contents_before(before, rank)) {
      if (expert != no_expert) ++copies[expert.index()];
    }
  }
  return copies;
}

/// Experts of a rank in the order in which they are worth keeping.
std::vector<ExpertId> by_worth(Row held, std::span<const std::int32_t> copies, LayerLoads loads) {
  std::vector<ExpertId> order;
  for (ExpertId expert : held) {
    if (expert != no_expert) order.push_back(expert);
  }
  std::stable_sort(order.begin(), order.end(), [&](ExpertId a, ExpertId b) {
    const auto left = copies[a.index()];
    const auto right = copies[b.index()];
    return left != right ? left < right : loads[a.index()] / left > loads[b.index()] / right;
  });
  return order;
}

}  // namespace

std::vector<ExpertId> carry_over(const RankedRow& before, LayerLoads loads, const Topology& topology) {
  std::vector<ExpertId> row(static_cast<std::size_t>(topology.num_slots()), no_expert);
  std::vector<std::int32_t> copies = count_copies(before, loads.size(), topology);
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const Row held = contents_before(before, rank);
    const std::size_t room = topology.is_alive(rank) ? topology.slots_of(rank).size() : 0;
    const auto target = row.begin() + topology.slots_of(rank).first().value();
    if (held.size() <= room) {
      std::copy(held.begin(), held.end(), target);
      continue;
    }
    const std::vector<ExpertId> order = by_worth(held, copies, loads);
    const auto kept = static_cast<std::ptrdiff_t>(std::min(room, order.size()));
    std::copy_n(order.begin(), kept, target);
    std::for_each(order.begin() + kept, order.end(), [&](ExpertId e) { --copies[e.index()]; });
  }
  return row;
}

void vacate_strangers(std::span<ExpertId> row, std::span<const NodeId> home, const Topology& topology) {
  if (home.empty()) return;
  for (SlotId slot : ids<SlotId>(row.size())) {
    ExpertId& held = row[slot.index()];
    if (held != no_expert && home[held.index()] != topology.node_of(topology.rank_of(slot))) held = no_expert;
  }
}

bool adds_second_copies(Row before, Row after, const Topology& topology) {
  for (Rank rank : usable_ranks(topology)) {
    const auto slots = topology.slots_of(rank);
    const Row was = before.subspan(slots.first().index(), slots.size());
    const Row is = after.subspan(slots.first().index(), slots.size());
    for (ExpertId expert : is) {
      const auto copies = std::count(is.begin(), is.end(), expert);
      const auto allowed = std::max<std::ptrdiff_t>(1, std::count(was.begin(), was.end(), expert));
      if (expert != no_expert && copies > allowed) return true;
    }
  }
  return false;
}

void align_row(const RankedRow& before, std::span<ExpertId> row, const Topology& topology) {
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const auto slots = topology.slots_of(rank);
    align_rank(contents_before(before, rank), row.subspan(slots.first().index(), slots.size()));
  }
}

}  // namespace trimtab
