// SPDX-License-Identifier: Apache-2.0
#include "route/phase_table.hpp"

#include "route/spread.hpp"

namespace trimtab {

void PhaseTable::build(const RoutingTable& table, LayerId layer) {
  width_ = static_cast<std::size_t>(table.num_experts()) + 1;
  cuts_.clear();
  cuts_.reserve(4 * static_cast<std::size_t>(table.num_slots()));
  rows_.assign(width_ << log2_rows, no_slot.value());
  for (ExpertId expert : ids<ExpertId>(table.num_experts())) add_expert(table, layer, expert);
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
      entry(row, expert) = slot();
    } else {
      entry(row, expert) = first_cut - static_cast<std::int32_t>(cuts_.size());
      for (; end < row_end; next()) cuts_.push_back({static_cast<std::uint32_t>(end - 1), slot()});
      cuts_.push_back({static_cast<std::uint32_t>(row_end - 1), slot()});
    }
    if (end == row_end && row + 1 < num_rows) next();
  }
}

}  // namespace trimtab
