// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// How a slot gets the bytes of its new expert.
enum class MoveKind : std::uint8_t {
  transfer,    ///< From a slot of another rank.
  local_copy,  ///< From a slot of the same rank.
  reuse,       ///< From what another move of this step has staged on the same rank.
  relay,       ///< From what another move of this step has staged on another rank of the same node.
  displaced,   ///< From what the commit takes out of a slot of the same rank; needs no staging of its own.
  recover,     ///< From the rank's ExpertSource: no slot holds the expert any more.
};

/// Whether the bytes come from another rank.
[[nodiscard]] constexpr bool is_remote(MoveKind kind) noexcept {
  return kind == MoveKind::transfer || kind == MoveKind::relay;
}

/// An expert that no live slot holds, but whose bundle is kept by the rank of `slot`: a commit took it out of
/// that slot.
struct KeptExpert {
  LayerId layer;
  ExpertId expert;
  SlotId slot;

  friend bool operator==(const KeptExpert&, const KeptExpert&) = default;
};

/// One slot that gets another expert.
struct Move {
  LayerId layer;
  ExpertId expert;
  SlotId
      source;  ///< Holds `expert` before the step, or its rank has kept it from there. For `reuse` and
               ///< `relay`: the destination of the move whose staged bytes are used; for `recover`: no_slot.
  SlotId destination;
  MoveKind kind = MoveKind::transfer;
  std::int32_t round = 0;  ///< Of a remote move: in a round no rank sends to two or receives from two.

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
  std::int32_t num_rounds =
      0;  ///< As few as possible: first those of the transfers, then those of the relays.
};

/// What a program costs over all ranks.
struct ProgramCost {
  std::int64_t slots_moved = 0;          ///< Slots that get an expert that was not on their rank before.
  std::uint64_t bytes_moved = 0;         ///< Across ranks.
  std::uint64_t bytes_across_nodes = 0;  ///< Part of bytes_moved.
  std::uint64_t bytes_copied = 0;        ///< Inside ranks.
  std::uint64_t bytes_moved_bound = 0;   ///< Each rank receives each expert that is new to it once.
  std::uint64_t bytes_across_nodes_bound = 0;  ///< Each node receives each expert that is new to it once.
  std::uint64_t bytes_recovered = 0;           ///< From sources: once per node that needs the expert.
  std::int64_t exchanges_forced = 0;           ///< Of two slots of a rank, which a small budget asked for.
  std::uint64_t bytes_extra = 0;               ///< Part of bytes_copied: beyond one bundle per changed slot.
};

/// Everything that shapes a program. Borrowed for the call.
struct ProgramInput {
  Epoch epoch;  ///< Of `from`.
  const Placement& from;
  const Placement& to;
  const Topology& topology;
  std::span<const std::size_t> bundle_bytes;                     ///< By layer.
  std::size_t staging_budget_bytes = 0;                          ///< Per rank.
  std::optional<std::size_t> stall_budget_bytes = std::nullopt;  ///< Per rank and step; see stall_budget.
  bool has_source = false;  ///< Every rank has an ExpertSource for experts that no live slot holds.
  std::span<const KeptExpert> kept = {};  ///< Come before those of a source. On live ranks.
};

/// The bytes that a rank which copies `copy_bytes_per_s` can exchange with its slots in `stall`; rounded
/// down. The rate must be the same number on every rank: it shapes the program.
/// @return `invalid_argument` when the rate is not a positive finite number or `stall` is negative.
[[nodiscard]] Result<std::size_t> stall_budget(std::chrono::nanoseconds stall, double copy_bytes_per_s);

/// The canonical list of moves from one placement to another, cut into steps. Every rank that builds it from
/// the same input has the same program and the same hash. Immutable value.
struct Program {
  Epoch epoch;              ///< Before the first step; step i ends in epoch + i + 1.
  std::vector<Step> steps;  ///< Empty when nothing changes.
  std::uint64_t hash =
      0;  ///< Over epoch, old placement, steps, ranks, slot ranges, live ranks, sizes and budgets (M6).
  std::size_t staging_bytes = 0;  ///< Largest need of any rank in any step.
  std::size_t stall_bytes = 0;    ///< Most that any rank exchanges with its slots in any step.
  ProgramCost cost;
};

/// Builds the program. Unchanged slots are skipped.
///
/// Sources: a rank that holds an expert before and needs it after copies it inside; so does a node. Else the
/// expert comes once per node and once per rank, from the rank that has sent least so far, and is relayed or
/// reused from there. One that no live slot holds comes from the rank that has kept it, like any other; else
/// to one rank of each node from its source, if there is one. Bytes across ranks and nodes are so the lower
/// bounds of the cost, whatever the budgets.
///
/// Steps: as many whole layers as fit on every rank. A layer that does not fit even alone is cut: slots whose
/// bundle is not needed as a source are written first, cycles together; a cycle that visits a rank more often
/// than a step may is first cut by exchanges of two slots inside that rank. One bundle of staging per rank is
/// enough for any program. A step may always write one slot, or exchange two, on a rank, whatever the stall
/// budget. Time: about linear in the slots that change, unless layers are cut.
/// @return `invalid_argument` when shapes differ or a slot of a dead rank gets an expert; `infeasible` naming
/// layer, bundle and budget when the budget holds not one bundle, and naming layer and expert when no live
/// slot holds an expert that is needed and there is no source.
[[nodiscard]] Result<Program> build_program(const ProgramInput& input);

/// The placement after `step`. Precondition: the step was built for `placement`.
[[nodiscard]] Placement apply(const Placement& placement, const Step& step);

/// The program for people: bytes against their lower bounds, budgets, forced exchanges, and for each step who
/// sends what to whom in which round and what it takes of each rank. Precondition: built from `input`.
[[nodiscard]] std::string explain(const Program& program, const ProgramInput& input);

}  // namespace trimtab
