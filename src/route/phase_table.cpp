// SPDX-License-Identifier: Apache-2.0
#include "route/phase_table.hpp"

#include "route/spread.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// An expert has one cut less than replicas, so there are fewer cuts than slots.
constexpr std::int32_t max_named_slots = 32000;

}  // namespace

void PhaseTable::build(const RoutingTable& table, LayerId layer) {
  width_ = static_cast<std::size_t>(table.num_experts()) + 1;
  cuts_.clear();
  cuts_.reserve(4 * static_cast<std::size_t>(table.num_slots()));
  rows_.clear();
  if (table.num_slots() > max_named_slots) return;
  rows_.assign(width_ << log2_rows, static_cast<std::int16_t>(no_slot.value()));
  for (ExpertId expert : ids<ExpertId>(table.num_experts())) add_expert(table, layer, expert);
}

SlotId PhaseTable::search(const RoutingTable& table, LayerId layer, ExpertId expert,
                          std::uint32_t phase) noexcept {
  const auto slots = table.replicas(layer, expert);
  const auto begins = table.share_begins(layer, expert);
  std::size_t at = mix(layer, expert) % slots.size();
  std::uint64_t end = RoutingTable::share_at(begins, at);
  while (phase >= end) {
    at = (at + 1) % slots.size();
    end += RoutingTable::share_at(begins, at);
  }
  return slots[at];
}

void PhaseTable::add_expert(const RoutingTable& table, LayerId layer, ExpertId expert) {
  constexpr std::uint32_t num_rows = std::uint32_t{1} << log2_rows;
  constexpr std::uint32_t row_phases = std::uint32_t{1} << (32 - log2_rows);
  const auto slots = table.replicas(layer, expert);
  const auto begins = table.share_begins(layer, expert);
  // Experts begin with different replicas, so that those of one token do not all take their first.
  const std::size_t first = mix(layer, expert) % slots.size();
  std::size_t at = 0;
  std::uint64_t end = RoutingTable::share_at(begins, first);
  const auto slot = [&] { return slots[(first + at) % slots.size()].value(); };
  const auto next = [&] { end += RoutingTable::share_at(begins, (first + ++at) % slots.size()); };
  for (std::uint32_t row = 0; row < num_rows; ++row) {
    const std::uint64_t row_end = (std::uint64_t{row} + 1) * row_phases;
    if (end >= row_end) {
      entry(row, expert) = static_cast<std::int16_t>(slot());
    } else {
      entry(row, expert) = static_cast<std::int16_t>(first_cut - static_cast<std::int32_t>(cuts_.size()));
      while (end < row_end) {
        Cut cut{.middle = static_cast<std::uint32_t>(end - 1), .slots = {slot(), 0}};
        next();
        cut.slots[1] = slot();
        cut.last_phase = static_cast<std::uint32_t>(std::min(end, row_end) - 1);
        cuts_.push_back(cut);
      }
    }
    if (end == row_end && row + 1 < num_rows) next();
  }
}

}  // namespace trimtab
