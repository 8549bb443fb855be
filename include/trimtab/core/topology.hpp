// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

/// What is known of one rank.
struct RankInfo {
  NodeId node;
  std::int32_t num_slots = 0;  ///< Physical slots per layer; ranks may differ.
  double speed = 1.0;          ///< Relative speed, > 0; a rank of speed 2 carries twice the load.
  bool is_alive = true;        ///< A dead rank keeps its slot numbers and carries nothing.

  friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

/// The ranks of a service: node, slots, speed and liveness of each. Slots are numbered rank by rank.
///
/// Immutable value; safe to read from any thread.
class Topology {
 public:
  /// @return `invalid_argument` naming the rank when a slot count is negative, a speed is not a positive
  ///         finite number, a node is negative or skipped, or no rank is alive.
  static Result<Topology> make(std::vector<RankInfo> ranks);

  /// Equal ranks: node(r) = floor(r * num_nodes / num_ranks); when the ranks do not divide
  /// `num_slots`, the first ranks get one slot more.
  static Result<Topology> make_uniform(std::int32_t num_ranks, std::int32_t num_nodes,
                                       std::int32_t num_slots);

  [[nodiscard]] std::int32_t num_ranks() const noexcept;
  [[nodiscard]] std::int32_t num_nodes() const noexcept { return num_nodes_; }
  /// Per layer, over all ranks, dead ones included.
  [[nodiscard]] std::int32_t num_slots() const noexcept;
  /// Per layer, over live ranks.
  [[nodiscard]] std::int32_t num_live_slots() const noexcept { return num_live_slots_; }
  /// Sum of speed over live ranks.
  [[nodiscard]] double total_speed() const noexcept { return total_speed_; }

  [[nodiscard]] const RankInfo& rank(Rank rank) const noexcept { return ranks_[rank.index()]; }
  [[nodiscard]] NodeId node_of(Rank rank) const noexcept { return ranks_[rank.index()].node; }
  [[nodiscard]] bool is_alive(Rank rank) const noexcept { return ranks_[rank.index()].is_alive; }
  [[nodiscard]] Rank rank_of(SlotId slot) const noexcept { return rank_of_slot_[slot.index()]; }
  [[nodiscard]] bool is_alive(SlotId slot) const noexcept { return is_alive(rank_of(slot)); }
  /// The slots that lie on `rank`.
  [[nodiscard]] IdRange<SlotId> slots_of(Rank rank) const noexcept;

  friend bool operator==(const Topology& a, const Topology& b) { return a.ranks_ == b.ranks_; }

 private:
  explicit Topology(std::vector<RankInfo> ranks);

  std::vector<RankInfo> ranks_;
  std::vector<std::int32_t> first_slot_;  ///< By rank, and the total at the end.
  std::vector<Rank> rank_of_slot_;
  std::int32_t num_nodes_ = 0;
  std::int32_t num_live_slots_ = 0;
  double total_speed_ = 0.0;
};

}  // namespace trimtab
