// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

namespace trimtab {

/// What lies on each rank while one layer is being packed. Indexed by Rank over the whole topology; ranks
/// outside the region stay empty.
class RankContents {
 public:
  /// @param counts  replicas by ExpertId; an expert's load is shared evenly by them
  RankContents(LayerLoads loads, std::span<const std::int32_t> counts, const Topology& topology);

  /// Load of one replica.
  [[nodiscard]] double share(ExpertId expert) const noexcept { return share_[expert.index()]; }
  [[nodiscard]] bool holds(Rank rank, ExpertId expert) const noexcept {
    return holds_[rank.index() * share_.size() + expert.index()] != 0;
  }
  /// Heaviest share first, then the lower expert.
  [[nodiscard]] std::span<const ExpertId> on(Rank rank) const noexcept {
    return ranks_[rank.index()].experts;
  }
  [[nodiscard]] bool has_room(Rank rank) const noexcept {
    return on(rank).size() < ranks_[rank.index()].num_slots;
  }
  /// Load / speed: what is to be levelled.
  [[nodiscard]] double pressure(Rank rank) const noexcept {
    return ranks_[rank.index()].load / ranks_[rank.index()].speed;
  }
  [[nodiscard]] double speed(Rank rank) const noexcept { return ranks_[rank.index()].speed; }

  /// Precondition: there is room.
  void add(Rank rank, ExpertId expert);
  /// Precondition: held once.
  void remove(Rank rank, ExpertId expert);

 private:
  struct Contents {
    std::vector<ExpertId> experts;
    double load = 0.0;
    double speed = 1.0;
    std::size_t num_slots = 0;
  };

  [[nodiscard]] bool sorts_before(ExpertId a, ExpertId b) const noexcept;
  void sum_load(Contents& contents) const noexcept;

  std::vector<double> share_;
  std::vector<std::uint8_t> holds_;  ///< [ranks][experts]
  std::vector<Contents> ranks_;
};

}  // namespace trimtab
