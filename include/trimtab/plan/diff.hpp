// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace trimtab {

/// How a slot comes to hold something else.
enum class ChangeKind : std::uint8_t {
  local_copy,   ///< Its rank held the expert before, or receives it for another slot too.
  intra_node,   ///< A rank of the same node held the expert before.
  inter_node,   ///< Only ranks of other nodes did.
  from_source,  ///< No live rank did: from a checkpoint or a host copy.
  vacated,      ///< It holds nothing now.
};

/// "local copy", "intra node", "inter node", "from source", "vacated".
[[nodiscard]] std::string_view to_string(ChangeKind kind) noexcept;

/// A slot that holds something else than before.
struct SlotChange {
  SlotId slot;    ///< In the new placement.
  ExpertId from;  ///< `no_expert` where the slot was vacant or did not exist.
  ExpertId to;
  ChangeKind kind = ChangeKind::vacated;
  bool is_move = false;  ///< The rank did not hold the expert before.

  friend bool operator==(const SlotChange&, const SlotChange&) = default;
};

/// What changing one layer, or several, costs.
struct ChangeCounts {
  std::int64_t moves = 0;         ///< Slots that get an expert which was not on their rank before.
  std::int64_t intra_node = 0;    ///< Experts received from a rank of the same node.
  std::int64_t inter_node = 0;    ///< Experts received from another node.
  std::int64_t from_source = 0;   ///< Experts that no live rank held.
  std::int64_t local_copies = 0;  ///< Other slots written: their rank held or received the expert anyway.
  std::int64_t vacated = 0;

  ChangeCounts& operator+=(const ChangeCounts& other) noexcept;
  friend bool operator==(const ChangeCounts&, const ChangeCounts&) = default;
};

/// How one layer differs.
struct LayerDiff {
  LayerId layer;
  std::vector<SlotChange> changes;  ///< By slot of the new placement.
  ChangeCounts counts;
};

/// Compares two placements of the same layers and experts, layer by layer. Rank r is the same device in both
/// topologies, and its i-th slot the same memory; ranks that only one has, and slots of ranks that are dead
/// in `old_topology`, held nothing before. What an expert is received from is any live rank that held it, the
/// nearest first: same rank, then same node (by the new topology), then any.
///
/// Pure.
/// @return `invalid_argument` when layers or experts differ, or slots do not agree with a topology.
[[nodiscard]] Result<std::vector<LayerDiff>> diff_placements(const Placement& before,
                                                             const Topology& old_topology,
                                                             const Placement& after,
                                                             const Topology& new_topology);

/// Sum over layers.
[[nodiscard]] ChangeCounts total_counts(const std::vector<LayerDiff>& layers) noexcept;

}  // namespace trimtab
