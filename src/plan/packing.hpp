// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/row.hpp"

namespace trimtab {

/// One layer of a placement while it is being changed: which expert each slot holds, with the replica counts
/// and rank loads that follow from it under even shares. O(slots + experts) memory; a change costs
/// O(copies of the experts in it).
///
/// Rank loads are updated, not summed anew, so after many changes the last digits depend on the order of the
/// changes, which is fixed. Borrows `loads` and `topology`.
class Packing {
 public:
  /// Precondition: slots of dead ranks are vacant in `row`.
  Packing(LayerLoads loads, const Topology& topology, Row row);

  /// Starts anew from another row, as if made from it.
  void reset(Row row);

  [[nodiscard]] Row row() const noexcept { return row_; }
  [[nodiscard]] const Topology& topology() const noexcept { return *topology_; }
  [[nodiscard]] ExpertId expert_at(SlotId slot) const noexcept { return row_[slot.index()]; }
  [[nodiscard]] Rank rank_of(SlotId slot) const noexcept { return topology_->rank_of(slot); }

  [[nodiscard]] LayerLoads loads() const noexcept { return loads_; }
  [[nodiscard]] double load(ExpertId expert) const noexcept { return loads_[expert.index()]; }
  /// Replicas of `expert`.
  [[nodiscard]] std::int32_t copies(ExpertId expert) const noexcept { return copies_[expert.index()]; }
  /// Load of one replica.
  [[nodiscard]] double share(ExpertId expert) const noexcept { return share_[expert.index()]; }
  [[nodiscard]] double load(Rank rank) const noexcept { return rank_load_[rank.index()]; }
  [[nodiscard]] double speed(Rank rank) const noexcept { return topology_->rank(rank).speed; }
  /// Load / speed: what is to be levelled.
  [[nodiscard]] double pressure(Rank rank) const noexcept { return load(rank) / speed(rank); }

  /// Calls `visit(SlotId)` for each slot that holds `expert`, the one that got it last first.
  template <class Visit>
  void for_each_replica(ExpertId expert, Visit visit) const {
    for (SlotId slot = first_[expert.index()]; slot != no_slot; slot = next_[slot.index()]) visit(slot);
  }
  [[nodiscard]] bool holds(Rank rank, ExpertId expert) const noexcept;

  /// Makes `slot` hold `expert` (or none) instead of what it held: the other replicas of the old expert take
  /// over its share, those of the new one give part of theirs.
  void put(SlotId slot, ExpertId expert);
  /// Exchanges what two slots hold; shares stay.
  void swap(SlotId a, SlotId b);

 private:
  static constexpr SlotId no_slot{-1};

  void link(SlotId slot, ExpertId expert);
  void unlink(SlotId slot);
  void reshare(ExpertId expert, std::int32_t copies);

  LayerLoads loads_;
  const Topology* topology_;
  std::vector<ExpertId> row_;         ///< By SlotId.
  std::vector<SlotId> next_;          ///< By SlotId: another replica of the same expert.
  std::vector<SlotId> first_;         ///< By ExpertId.
  std::vector<std::int32_t> copies_;  ///< By ExpertId.
  std::vector<double> share_;         ///< By ExpertId.
  std::vector<double> rank_load_;     ///< By Rank.
};

/// The rank of `ranks` with the highest load / speed; equal: the first.
[[nodiscard]] Rank fullest_rank(const Packing& packing, std::span<const Rank> ranks);

}  // namespace trimtab
