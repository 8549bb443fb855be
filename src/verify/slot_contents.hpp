// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/migrate/program.hpp>

#include <cstdint>
#include <vector>

namespace trimtab::verify {

/// Whose bytes lie in each slot of one rank. Unlike a placement it also knows what a vacant slot holds, so
/// that a write to one is seen.
class SlotContents {
 public:
  /// What `placement` says; `no_expert` in vacant slots: anything may be there.
  SlotContents(const Placement& placement, IdRange<SlotId> slots)
      : slots_(slots), layers_(static_cast<std::size_t>(placement.num_layers())) {
    for (LayerId layer : ids<LayerId>(placement.num_layers())) {
      for (SlotId slot : slots) layers_[layer.index()].push_back(placement.expert_at(layer, slot));
    }
  }

  /// The same, but vacant slots hold experts that no placement names, each another.
  [[nodiscard]] static SlotContents with_marked_vacancies(const Placement& placement, IdRange<SlotId> slots) {
    SlotContents contents(placement, slots);
    for (LayerId layer : ids<LayerId>(placement.num_layers())) {
      for (SlotId slot : slots) {
        if (contents.at(layer, slot) == no_expert)
          contents.set(layer, slot, ExpertId{first_marked_expert + slot.value()});
      }
    }
    return contents;
  }

  [[nodiscard]] IdRange<SlotId> slots() const noexcept { return slots_; }
  [[nodiscard]] ExpertId at(LayerId layer, SlotId slot) const { return layers_[layer.index()][local(slot)]; }
  void set(LayerId layer, SlotId slot, ExpertId expert) { layers_[layer.index()][local(slot)] = expert; }

  /// What `step` writes; slots that become vacant keep their bytes.
  void apply(const Step& step) {
    for (const Move& move : step.moves) {
      if (slots_.contains(move.destination)) set(move.layer, move.destination, move.expert);
    }
  }

 private:
  static constexpr std::int32_t first_marked_expert = 40000;

  [[nodiscard]] std::size_t local(SlotId slot) const noexcept {
    return slot.index() - slots_.first().index();
  }

  IdRange<SlotId> slots_;
  std::vector<std::vector<ExpertId>> layers_;
};

}  // namespace trimtab::verify
