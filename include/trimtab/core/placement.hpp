// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Which logical expert each physical slot holds, for every layer (`physical_to_logical_map`), with
/// the derived index expert -> slots in CSR form.
///
/// Immutable value; safe to read from any thread. Every expert has at least one slot (I1); slots may
/// be vacant (I3).
class Placement {
 public:
  /// Takes the map in row-major order [layers][slots]; `no_expert` marks a vacant slot.
  /// @return `invalid_argument` naming layer, slot and value for an expert out of range or a wrong size;
  ///         `infeasible` naming layer and expert when an expert has no slot, or when slots < experts.
  static Result<Placement> make(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                                std::vector<ExpertId> physical_to_logical);

  /// Slot s holds expert s mod E in every layer: the start of a service.
  /// @return `infeasible` when `num_slots < num_experts`.
  static Result<Placement> identity(std::int32_t num_layers, std::int32_t num_slots,
                                    std::int32_t num_experts);

  [[nodiscard]] std::int32_t num_layers() const noexcept { return num_layers_; }
  [[nodiscard]] std::int32_t num_slots() const noexcept { return num_slots_; }
  [[nodiscard]] std::int32_t num_experts() const noexcept { return num_experts_; }

  /// What each slot of `layer` holds.
  [[nodiscard]] std::span<const ExpertId> layer(LayerId layer) const noexcept;
  [[nodiscard]] ExpertId expert_at(LayerId layer, SlotId slot) const noexcept {
    return this->layer(layer)[slot.index()];
  }
  /// The slots that hold `expert`, ascending.
  [[nodiscard]] std::span<const SlotId> replicas(LayerId layer, ExpertId expert) const noexcept;

  friend bool operator==(const Placement& a, const Placement& b) {
    return a.num_layers_ == b.num_layers_ && a.num_experts_ == b.num_experts_ &&
           a.physical_to_logical_ == b.physical_to_logical_;
  }

 private:
  Placement(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
            std::vector<ExpertId> physical_to_logical);

  std::int32_t num_layers_;
  std::int32_t num_slots_;
  std::int32_t num_experts_;
  std::vector<ExpertId> physical_to_logical_;  ///< [layers][slots]
  std::vector<std::int32_t> first_replica_;  ///< [layers][experts + 1], offsets into a layer's part of slots_
  std::vector<SlotId> slots_;                ///< [layers][slots], grouped by expert
};

/// One expert of one layer.
struct LayerExpert {
  LayerId layer;
  ExpertId expert;

  friend bool operator==(const LayerExpert&, const LayerExpert&) = default;
};

/// The experts that have no slot on a live rank, by layer, then expert. Precondition: the slot counts agree.
[[nodiscard]] std::vector<LayerExpert> find_lost(const Placement& placement, const Topology& topology);

/// Checks that every expert of every layer has a slot on a live rank (I1), and that the slot counts agree.
[[nodiscard]] Status check_live(const Placement& placement, const Topology& topology);

}  // namespace trimtab
