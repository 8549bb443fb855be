// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <array>
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

  /// Whether 16 bits can name all slots and cuts. If not, there are no rows, and `search` must do.
  [[nodiscard]] bool has_rows() const noexcept { return !rows_.empty(); }
  /// The slot that `phase` picks, found in the routing table itself.
  [[nodiscard]] static SlotId search(const RoutingTable& table, LayerId layer, ExpertId expert,
                                     std::uint32_t phase) noexcept;

  /// For all phases of one range: by expert, and at -1 for padding, a slot, or what `pick_at_cut` wants.
  [[nodiscard]] const std::int16_t* row(std::uint32_t phase) const noexcept {
    return rows_.data() + (phase >> (32 - log2_rows)) * width_ + 1;
  }
  [[nodiscard]] static bool is_cut(std::int16_t entry) noexcept { return entry < no_slot.value(); }
  [[nodiscard]] std::int32_t pick_at_cut(std::int16_t entry, std::uint32_t phase) const noexcept {
    const Cut* cut = &cuts_[static_cast<std::size_t>(first_cut - entry)];
    while (phase > cut->last_phase) [[unlikely]]++ cut;
    return cut->slots[phase > cut->middle ? 1 : 0];
  }

 private:
  /// Many ranges have fewer cuts, but all rows should fit the first-level cache beside a batch.
  static constexpr std::uint32_t log2_rows = 6;
  static constexpr std::int32_t first_cut = no_slot.value() - 1;

  /// Phases up to `last_phase`, and behind those of the cut before, take the first slot, and behind `middle`
  /// the second. Nearly every range has but one cut.
  struct Cut {
    std::uint32_t middle = 0;
    std::uint32_t last_phase = 0;
    std::array<std::int32_t, 2> slots = {};
  };

  void add_expert(const RoutingTable& table, LayerId layer, ExpertId expert);
  [[nodiscard]] std::int16_t& entry(std::uint32_t row, ExpertId expert) noexcept {
    return rows_[row * width_ + expert.index() + 1];
  }

  std::size_t width_ = 0;
  std::vector<std::int16_t> rows_;  ///< [ranges][1 + experts]
  std::vector<Cut> cuts_;
};

}  // namespace trimtab
