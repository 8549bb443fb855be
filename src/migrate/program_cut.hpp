// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/program_holdings.hpp"
#include "migrate/program_room.hpp"
#include "migrate/program_sources.hpp"

#include <trimtab/migrate/program.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trimtab {

/// Two slots of one rank that swap what they hold.
struct Exchange {
  SlotId first;
  SlotId second;
};

/// What one step does to a layer that is cut.
struct LayerPart {
  std::vector<SlotId> fills;  ///< Slots that get what the goal says.
  std::vector<Exchange> exchanges;

  [[nodiscard]] bool is_empty() const noexcept { return fills.empty() && exchanges.empty(); }
};

/// Leads one layer to its goal in several steps, each of which fits its room and keeps a copy of every expert
/// wherever it is still needed.
///
/// A slot may be written when what it holds is held elsewhere (Holdings), in the same step at the latest.
/// When no slot may, each waits for exactly one other and is waited for by one: what is left are disjoint
/// cycles. A cycle is written in one step, or, where it visits a rank too often for any step, cut in two by
/// an exchange inside that rank, which changes nobody's holdings.
class LayerCutter {
 public:
  /// Borrows `input`.
  LayerCutter(const ProgramInput& input, LayerId layer);

  /// As much as `room` allows, and takes it. Never empty when the room is.
  [[nodiscard]] LayerPart next(StepRoom& room);
  /// After the step that holds `part`.
  void commit(const LayerPart& part);

  [[nodiscard]] bool is_done() const noexcept { return pending_.empty(); }
  /// What the slots hold before the next part.
  [[nodiscard]] std::span<const ExpertId> row() const noexcept { return row_; }

 private:
  enum class SlotState : std::uint8_t { settled, pending, taken };
  using Cycle = std::vector<SlotId>;

  void fill_free(StepRoom& room, LayerPart& part);
  [[nodiscard]] bool fill_cycles(StepRoom& room, LayerPart& part);
  void exchange_inside(Cycle cycle, StepRoom& room, LayerPart& part);

  void take(SlotId slot, StepRoom& room, LayerPart& part);
  [[nodiscard]] bool is_blocked(SlotId slot) const;
  [[nodiscard]] bool is_stuck() const;
  [[nodiscard]] SlotId successor(SlotId slot) const;
  [[nodiscard]] std::vector<Cycle> find_cycles();
  [[nodiscard]] bool fits(const Cycle& cycle, const StepRoom& room);
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> find_cut(const Cycle& cycle,
                                                                            const StepRoom& room);
  void count_visits(const Cycle& cycle);

  const ProgramInput& input_;
  LayerId layer_;
  std::size_t bytes_;
  std::vector<ExpertId> row_;
  Holdings holdings_;  ///< After the part under construction.
  Holders holders_;    ///< Before it.
  std::vector<SlotId> pending_;
  std::vector<SlotState> states_;     ///< By slot.
  std::vector<std::uint32_t> walks_;  ///< By slot: the walk that came by, in find_cycles.
  std::vector<std::size_t> visits_;   ///< By rank, of the cycle counted last.
};

}  // namespace trimtab
