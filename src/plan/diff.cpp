// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/diff.hpp>

#include "plan/diff_row.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

/// What the i-th slot of `rank` held.
ExpertId held_before(const RankedRow& before, Rank rank, std::size_t i) {
  if (rank.value() >= before.topology.num_ranks() || !before.topology.is_alive(rank)) return no_expert;
  const auto slots = before.topology.slots_of(rank);
  return i < slots.size() ? before.row[slots.first().index() + i] : no_expert;
}

ChangeKind nearest_source(std::span<const Rank> holders, Rank rank, const Topology& topology) {
  ChangeKind nearest = ChangeKind::from_source;
  for (Rank holder : holders) {
    if (holder == rank) return ChangeKind::local_copy;
    // A rank that the new topology lacks, or has as dead, cannot send.
    if (holder.value() >= topology.num_ranks() || !topology.is_alive(holder)) continue;
    const bool is_near = topology.node_of(holder) == topology.node_of(rank);
    if (is_near) nearest = ChangeKind::intra_node;
    if (!is_near && nearest == ChangeKind::from_source) nearest = ChangeKind::inter_node;
  }
  return nearest;
}

void count(const SlotChange& change, ChangeCounts& counts) {
  counts.moves += change.is_move ? 1 : 0;
  switch (change.kind) {
    case ChangeKind::local_copy:
      ++counts.local_copies;
      break;
    case ChangeKind::intra_node:
      ++counts.intra_node;
      break;
    case ChangeKind::inter_node:
      ++counts.inter_node;
      break;
    case ChangeKind::from_source:
      ++counts.from_source;
      break;
    case ChangeKind::vacated:
      ++counts.vacated;
      break;
  }
}

class RowDiff {
 public:
  RowDiff(LayerId layer, const RankedRow& before, const Holders& holders, const RankedRow& after)
      : before_(before), holders_(holders), after_(after), diff_{layer, {}, {}} {}

  LayerDiff run() {
    for (Rank rank : ids<Rank>(after_.topology.num_ranks())) {
      if (after_.topology.is_alive(rank)) look_at(rank);
    }
    return std::move(diff_);
  }

 private:
  void look_at(Rank rank) {
    const std::size_t first_change = diff_.changes.size();
    std::size_t i = 0;
    for (SlotId slot : after_.topology.slots_of(rank)) {
      SlotChange change{slot, held_before(before_, rank, i++), after_.row[slot.index()]};
      if (change.from == change.to) continue;
      if (change.to != no_expert) {
        change.kind = nearest_source(holders_.of(change.to), rank, after_.topology);
        change.is_move = change.kind != ChangeKind::local_copy;
        if (is_received_already(first_change, change.to)) change.kind = ChangeKind::local_copy;
      }
      count(change, diff_.counts);
      diff_.changes.push_back(change);
    }
  }

  [[nodiscard]] bool is_received_already(std::size_t first_change, ExpertId expert) const {
    return std::any_of(diff_.changes.begin() + static_cast<std::ptrdiff_t>(first_change), diff_.changes.end(),
                       [&](const SlotChange& change) { return change.to == expert; });
  }

  const RankedRow& before_;
  const Holders& holders_;
  const RankedRow& after_;
  LayerDiff diff_;
};

Status check_slots(const Placement& placement, const Topology& topology, std::string_view which) {
  if (placement.num_slots() == topology.num_slots()) return {};
  return failure(Errc::invalid_argument, fmt::format("{} placement: {} slots, but its topology has {}", which,
                                                     placement.num_slots(), topology.num_slots()));
}

}  // namespace

std::string_view to_string(ChangeKind kind) noexcept {
  switch (kind) {
    case ChangeKind::local_copy:
      return "local copy";
    case ChangeKind::intra_node:
      return "intra node";
    case ChangeKind::inter_node:
      return "inter node";
    case ChangeKind::from_source:
      return "from source";
    case ChangeKind::vacated:
      return "vacated";
  }
  return "unknown";
}

ChangeCounts& ChangeCounts::operator+=(const ChangeCounts& other) noexcept {
  moves += other.moves;
  intra_node += other.intra_node;
  inter_node += other.inter_node;
  from_source += other.from_source;
  local_copies += other.local_copies;
  vacated += other.vacated;
  return *this;
}

LayerDiff diff_rows(LayerId layer, const RankedRow& before, const Holders& holders, const RankedRow& after) {
  return RowDiff(layer, before, holders, after).run();
}

Result<std::vector<LayerDiff>> diff_placements(const Placement& before, const Topology& old_topology,
                                               const Placement& after, const Topology& new_topology) {
  if (before.num_layers() != after.num_layers() || before.num_experts() != after.num_experts()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("placements differ in shape: {} layers of {} experts and {} of {}", before.num_layers(),
                    before.num_experts(), after.num_layers(), after.num_experts()));
  }
  if (Status ok = check_slots(before, old_topology, "old"); !ok) return failure(std::move(ok));
  if (Status ok = check_slots(after, new_topology, "new"); !ok) return failure(std::move(ok));
  std::vector<LayerDiff> layers;
  for (LayerId layer : ids<LayerId>(after.num_layers())) {
    const Holders holders(before.layer(layer), before.num_experts(), old_topology);
    layers.push_back(
        diff_rows(layer, {before.layer(layer), old_topology}, holders, {after.layer(layer), new_topology}));
  }
  return layers;
}

ChangeCounts total_counts(const std::vector<LayerDiff>& layers) noexcept {
  ChangeCounts total;
  for (const LayerDiff& layer : layers) total += layer.counts;
  return total;
}

}  // namespace trimtab
