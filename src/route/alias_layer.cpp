// SPDX-License-Identifier: Apache-2.0
#include "route/alias_layer.hpp"

#include "route/spread.hpp"

namespace trimtab {

void AliasLayer::build(const RoutingTable& table, LayerId layer) {
  const auto slots = static_cast<std::size_t>(table.num_slots());
  heads_.clear();
  columns_.clear();
  heads_.reserve(static_cast<std::size_t>(table.num_experts()) + 1);
  columns_.reserve(slots + 1);
  parts_.reserve(slots);
  heads_.push_back({0, 1});
  columns_.push_back({.slots = {no_slot.value(), no_slot.value()}});
  for (ExpertId expert : ids<ExpertId>(table.num_experts())) add_expert(table, layer, expert);
}

void AliasLayer::add_expert(const RoutingTable& table, LayerId layer, ExpertId expert) {
  const auto slots = table.replicas(layer, expert);
  const auto begins = table.share_begins(layer, expert);
  const std::size_t count = slots.size();
  heads_.push_back({static_cast<std::uint32_t>(columns_.size()), static_cast<std::uint32_t>(count)});
  columns_.resize(columns_.size() + count);
  // Which column a phase meets differs from expert to expert, so that the experts of one token do not all
  // take their first replica together.
  const std::size_t shift = mix(layer, expert) % count;
  const auto columns = std::span(columns_).last(count);
  const auto column = [&](std::size_t i) -> Column& { return columns[(i + shift) % count]; };
  // Parts of whole_share / count, so that a column holds whole_share of them.
  parts_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    parts_[i] = RoutingTable::share_at(begins, i) * count;
    column(i).slots = {slots[i].value(), slots[i].value()};
  }
  fill_columns(slots, column);
}

/// Each replica that does not fill its column shares it with one that overflows its own. What overflowed may
/// then fall short itself: behind the light one it is met later, before it it is the next.
template <class ColumnOf>
void AliasLayer::fill_columns(std::span<const SlotId> slots, ColumnOf column) {
  constexpr std::uint64_t full = RoutingTable::whole_share;
  const auto find = [&](std::size_t i, bool is_light) {
    while (i < slots.size() && (parts_[i] < full) != is_light) ++i;
    return i;
  };
  std::size_t light = find(0, true);
  std::size_t heavy = find(0, false);
  for (std::size_t i = light; light < slots.size() && heavy < slots.size();) {
    column(i).threshold = static_cast<std::uint32_t>(parts_[i]);
    column(i).slots[1] = slots[heavy].value();
    parts_[heavy] -= full - parts_[i];
    const std::size_t donor = heavy;
    if (parts_[donor] < full) heavy = find(donor + 1, false);
    if (parts_[donor] < full && donor < light) {
      i = donor;
    } else {
      i = light = find(light + 1, true);
    }
  }
}

}  // namespace trimtab
