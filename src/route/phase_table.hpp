// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

/// Picks, for one layer, a replica of an expert by a phase: the one in whose share the phase lies, counted
/// from where the expert begins. Phases that are spread evenly over 32 bits give each replica its share
/// exactly.
///
/// Phases are cut into ranges. In most, all phases pick the same replica of an expert, and a row of slots by
/// expert says which. Where a share ends within the range, the row names a cut instead, which says where.
class PhaseTable {
 public:
  void build(const RoutingTable& table, LayerId layer);

  /// For all phases of one range: by expert, and at -1 for padding, a slot, or what `pick_at_cut` wants.
  [[nodiscard]] const std::int32_t* row(std::uint32_t phase) const noexcept {
    return rows_.data() + (phase >> (32 - log2_rows)) * width_ + 1;
  }
  [[nodiscard]] static bool is_cut(std::int32_t entry) noexcept { return entry < no_slot.value(); }
  [[nodiscard]] std::int32_t pick_at_cut(std::int32_t entry, std::uint32_t phase) const noexcept {
    const Cut* cut = &cuts_[static_cast<std::size_t>(first_cut - entry)];
    while (phase > cut->last_phase) ++cut;
    return cut->slot;
  }

 private:
  /// Many ranges have fewer cuts, but all rows should fit the first-level cache beside a batch.
  static constexpr std::uint32_t log2_rows = 5;
  static constexpr std::int32_t first_cut = no_slot.value() - 1;

  /// Phases of a range up to this one, and behind those of the cut before, take this slot.
  struct Cut {
    std::uint32_t last_phase = 0;
    std::int32_t slot = 0;
  };

  void add_expert(const RoutingTable& table, LayerId layer, ExpertId expert);
  [[nodiscard]] std::int32_t& entry(std::uint32_t row, ExpertId expert) noexcept {
    return rows_[row * width_ + expert.index() + 1];
  }

  std::size_t width_ = 0;
  std::vector<std::int32_t> rows_;  ///< [ranges][1 + experts]
  std::vector<Cut> cuts_;
};

}  // namespace trimtab
