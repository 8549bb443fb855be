// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/packing.hpp"

#include <cstdint>

namespace trimtab {

/// As much of a region's load as its ranks can take, none above one common level of load / speed, whatever
/// shares the replicas have: a maximum flow from experts to ranks that follows the row of a packing while
/// that is being changed. Loads, levels and room are in units of the region's mean load / speed.
///
/// No placement of the row is needed anew after a change: what a slot carried is taken back, and paths are
/// looked for from there. Nothing is allocated after construction but for the first snapshot. O(slots +
/// experts) memory. Borrows `packing`, whose slots must hold the experts of the region on its ranks only.
class SplitFlow {
 public:
  SplitFlow(LayerLoads loads, const Packing& packing, const Region& region);

  /// Starts anew from the row as it is, at `level`.
  void reset(double level);
  /// Takes back what `slot` carries. To be called before the packing changes the slot.
  void release(SlotId slot);
  /// Finds a maximum flow again. To be called when the packing is as it shall be.
  void settle();

  /// Load that no rank has taken.
  [[nodiscard]] double deficit() const noexcept { return state_.deficit; }
  /// Load that a rank could still take.
  [[nodiscard]] double room(Rank rank) const noexcept { return state_.room[rank.index()]; }
  /// The experts that hold the deficit up: all of their ranks are full, and of others that take their load.
  /// Empty without deficit. Valid until the next change.
  [[nodiscard]] std::span<const ExpertId> tight_experts() const noexcept { return state_.tight_experts; }
  [[nodiscard]] std::span<const Rank> tight_ranks() const noexcept { return state_.tight_ranks; }
  [[nodiscard]] bool is_tight(Rank rank) const noexcept { return rank_seen_[rank.index()] == stamp_; }

  /// The level at which nothing is left over: the optimum of the exact split. Leaves the flow at that level.
  double find_optimum();

  /// Keeps the flow, to return to it when the packing is as it was.
  void save() { saved_ = state_; }
  void restore();

 private:
  struct State {
    std::vector<double> flow;  ///< By SlotId.
    std::vector<double> left;  ///< By ExpertId: not taken.
    std::vector<double> room;  ///< By Rank.
    double deficit = 0.0;
    std::vector<ExpertId> tight_experts;  ///< Those that the last search for a path found.
    std::vector<Rank> tight_ranks;
  };

  void start();
  [[nodiscard]] bool augment();
  bool visit_expert(ExpertId expert);
  void visit_rank(Rank rank);
  void push_to(Rank rank);
  void raise_level(double level);

  const Packing& packing_;
  const Region& region_;
  std::vector<double> load_;  ///< By ExpertId.
  double level_ = 1.0;
  State state_;
  State saved_;
  std::uint32_t stamp_ = 0;                 ///< Of the last search.
  std::vector<std::uint32_t> expert_seen_;  ///< By ExpertId: the search that found it.
  std::vector<std::uint32_t> rank_seen_;    ///< By Rank.
  std::vector<SlotId> expert_via_;          ///< By ExpertId: the slot whose load it would take back.
  std::vector<SlotId> rank_via_;            ///< By Rank: the slot that would take more.
};

}  // namespace trimtab
