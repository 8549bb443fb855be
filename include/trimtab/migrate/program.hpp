// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// How a slot gets the bytes of its new expert.
enum class MoveKind : std::uint8_t {
  transfer,    ///< From a slot of another rank.
  local_copy,  ///< From a slot of the same rank.
  reuse,       ///< From what another move of this step has staged on the same rank.
};

/// One slot that gets another expert.
struct Move {
  LayerId layer;
  ExpertId expert;
  SlotId source;  ///< Holds `expert` before the step. For `reuse`: the destination of the move whose staged
                  ///< bytes are used.
  SlotId destination;
  MoveKind kind = MoveKind::transfer;

  friend bool operator==(const Move&, const Move&) = default;
};

/// A slot that becomes vacant; no bytes move.
struct Vacation {
  LayerId layer;
  SlotId slot;

  friend bool operator==(const Vacation&, const Vacation&) = default;
};

/// Moves committed together. Every placement between two steps is valid (I1).
struct Step {
  std::vector<Move> moves;          ///< By layer, then destination.
  std::vector<Vacation> vacations;  ///< By layer, then slot.
};

/// What a program costs over all ranks.
struct ProgramCost {
  std::int64_t slots_moved = 0;          ///< Slots that get an expert that was not on their rank before.
  std::uint64_t bytes_moved = 0;         ///< Across ranks.
  std::uint64_t bytes_across_nodes = 0;  ///< Part of bytes_moved.
  std::uint64_t bytes_copied = 0;        ///< Inside ranks.
};

/// Everything that shapes a program. Borrowed for the call.
struct ProgramInput {
  Epoch epoch;  ///< Of `from`.
  const Placement& from;
  const Placement& to;
  const Topology& topology;
  std::span<const std::size_t> bundle_bytes;  ///< By layer.
  std::size_t staging_budget_bytes = 0;       ///< Per rank.
};

/// The canonical list of moves from one placement to another, cut into steps. Every rank that builds it from
/// the same input has the same program and the same hash. Immutable value.
struct Program {
  Epoch epoch;              ///< Before the first step; step i ends in epoch + i + 1.
  std::vector<Step> steps;  ///< Empty when nothing changes.
  std::uint64_t hash =
      0;  ///< Over epoch, old placement, steps, ranks, slot ranges, live ranks and sizes (M6).
  std::size_t staging_bytes = 0;  ///< Largest need of any rank in any step.
  ProgramCost cost;
};

/// Builds the program. Unchanged slots are skipped; a source on the same rank is preferred to one on the same
/// node, that to one on another node, and among equals the rank that sends least so far; an expert needed in
/// several slots of a rank is received once. A step holds as many whole layers as fit the staging budget on
/// every rank.
/// @return `invalid_argument` when shapes differ; `infeasible` naming layer, rank, need and budget when one
/// layer alone does not
///         fit, and naming layer and expert when no live slot holds an expert that must move.
[[nodiscard]] Result<Program> build_program(const ProgramInput& input);

/// The placement after `step`. Precondition: the step was built for `placement`.
[[nodiscard]] Placement apply(const Placement& placement, const Step& step);

}  // namespace trimtab
