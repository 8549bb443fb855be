// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>
#include <trimtab/migrate/program.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// The live slots that hold each expert of one layer, as the layer is between two steps. Memory is kept from
/// one row to the next.
class Holders {
 public:
  void rebuild(std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology);

  /// Ascending.
  [[nodiscard]] std::span<const SlotId> of(ExpertId expert) const noexcept;
  /// The first of them on `slots`, or no_slot.
  [[nodiscard]] SlotId first_in(ExpertId expert, IdRange<SlotId> slots) const noexcept;

 private:
  std::vector<std::size_t> first_;  ///< By expert, and the total at the end.
  std::vector<SlotId> slots_;
};

/// Chooses where the bytes of each move come from: same rank, same node, another node; among equals the rank
/// that sends least so far. What a rank or a node lacks it receives once and passes on inside.
class SourceChooser {
 public:
  /// Borrows `input`.
  explicit SourceChooser(const ProgramInput& input);

  /// Appends the moves that fill `fills` of `layer`, which holds `row` before the step, as `input.to` says.
  /// Precondition: a live slot of `row` holds each of the experts, or there is a source.
  void choose(LayerId layer, std::span<const ExpertId> row, std::span<const SlotId> fills,
              std::vector<Move>& moves);

 private:
  void choose_expert(LayerId layer, ExpertId expert, std::span<const SlotId> fills, std::vector<Move>& moves);
  void receive(LayerId layer, ExpertId expert, std::vector<Move>& moves);
  void reach(LayerId layer, ExpertId expert, std::span<const SlotId> arrivals, std::vector<Move>& moves);
  void cross(LayerId layer, ExpertId expert, std::span<const SlotId> arrivals, std::vector<Move>& moves);
  void recover(LayerId layer, ExpertId expert, std::span<const SlotId> arrivals, std::vector<Move>& moves);
  [[nodiscard]] SlotId least_sender(std::span<const SlotId> slots) const;
  void count_sent(SlotId source, LayerId layer);
  [[nodiscard]] NodeId node_of(SlotId slot) const noexcept;

  const ProgramInput& input_;
  std::vector<std::uint64_t> sent_bytes_;  ///< By rank, over the whole program.
  Holders holders_;
  std::vector<SlotId> sorted_;    ///< Fills by expert, then slot.
  std::vector<SlotId> arrivals_;  ///< Of one expert: one slot on each rank that lacks it, by node, then slot.
  std::vector<SlotId> near_;
};

}  // namespace trimtab
