// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/program_cut.hpp"
#include "migrate/program_room.hpp"
#include "migrate/program_sources.hpp"

#include <trimtab/migrate/program.hpp>

#include <span>
#include <vector>

namespace trimtab {

/// Collects layers into steps: whole where they fit, cut where they do not.
class StepBuilder {
 public:
  /// Borrows `input`.
  explicit StepBuilder(const ProgramInput& input);

  /// Layers come in ascending order. Precondition: every expert that a slot of it needs has a live source,
  /// and one bundle fits the budget.
  void add_layer(LayerId layer);

  /// Rounds included.
  [[nodiscard]] std::vector<Step> take_steps();
  [[nodiscard]] const StepRoom& room() const noexcept { return room_; }

 private:
  [[nodiscard]] bool fits(LayerId layer, std::span<const SlotId> fills);
  void add_whole(LayerId layer, std::span<const SlotId> fills);
  void add_cut(LayerId layer);
  void append(LayerId layer, std::span<const ExpertId> row, const LayerPart& part);
  void begin_step();

  const ProgramInput& input_;
  SourceChooser sources_;
  StepRoom room_;  ///< Of the last step.
  std::vector<Step> steps_;
  std::vector<std::size_t> counts_;  ///< Slots that a layer writes, by rank.
};

}  // namespace trimtab
