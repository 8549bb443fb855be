// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/row.hpp"

namespace trimtab {

/// What lies on each rank while one layer is being filled with replicas whose number is known beforehand.
/// Indexed by Rank over the whole topology; ranks outside the region stay empty.
class RankContents {
 public:
  /// @param counts  replicas by ExpertId; an expert's load is shared evenly by them
  RankContents(LayerLoads loads, std::span<const std::int32_t> counts, const Topology& topology);

  /// Load of one replica.
  [[nodiscard]] double share(ExpertId expert) const noexcept { return share_[expert.index()]; }
  /// O(slots of the rank).
  [[nodiscard]] bool holds(Rank rank, ExpertId expert) const noexcept;
  /// In the order of arrival.
  [[nodiscard]] std::span<const ExpertId> on(Rank rank) const noexcept {
    return Row(row_).subspan(ranks_[rank.index()].first_slot, ranks_[rank.index()].num_held);
  }
  [[nodiscard]] bool has_room(Rank rank) const noexcept {
    return ranks_[rank.index()].num_held < ranks_[rank.index()].num_slots;
  }
  /// Load / speed: what is to be levelled.
  [[nodiscard]] double pressure(Rank rank) const noexcept {
    return ranks_[rank.index()].load / ranks_[rank.index()].speed;
  }
  /// The expert of each slot, by SlotId; slots not filled are vacant.
  [[nodiscard]] Row row() const noexcept { return row_; }

  /// Precondition: there is room.
  void add(Rank rank, ExpertId expert);
  /// Precondition: held.
  void remove(Rank rank, ExpertId expert);

 private:
  struct Contents {
    double load = 0.0;
    double speed = 1.0;
    std::size_t first_slot = 0;
    std::size_t num_held = 0;
    std::size_t num_slots = 0;
  };

  std::vector<double> share_;
  std::vector<ExpertId> row_;
  std::vector<Contents> ranks_;
};

}  // namespace trimtab
