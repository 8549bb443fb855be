// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace trimtab {

/// A place, by rank within the region and slot.
struct Site {
  std::size_t rank;
  SlotId slot;
};

/// The part of a row that lies on some ranks, and the swaps made there so far.
///
/// Points of the graph are ranks and, behind them, experts with several copies here ("linked"); each such
/// copy ties its expert to its rank. Swapping experts that are not linked changes no component.
class RegionRow {
 public:
  RegionRow(std::span<const double> share, const Topology& topology, std::span<const Rank> ranks,
            std::span<ExpertId> row);

  [[nodiscard]] std::size_t size() const noexcept { return ranks_.size(); }
  [[nodiscard]] std::size_t num_points() const noexcept { return num_points_; }
  [[nodiscard]] IdRange<SlotId> slots(std::size_t rank) const { return topology_.slots_of(ranks_[rank]); }
  [[nodiscard]] ExpertId at(SlotId slot) const { return row_[slot.index()]; }
  [[nodiscard]] double share(SlotId slot) const {
    return at(slot) == no_expert ? 0.0 : share_[at(slot).index()];
  }
  [[nodiscard]] bool is_linked(SlotId slot) const {
    return at(slot) != no_expert && link_of_[at(slot).index()] > 0;
  }
  /// The point that stands for the expert there. Precondition: linked.
  [[nodiscard]] std::size_t link(SlotId slot) const { return link_of_[at(slot).index()]; }
  /// Linked copies on a rank.
  [[nodiscard]] std::size_t degree(std::size_t rank) const { return degree_[rank]; }
  [[nodiscard]] double speed(std::size_t rank) const { return topology_.rank(ranks_[rank]).speed; }
  [[nodiscard]] double load(std::size_t rank) const { return load_[rank]; }
  [[nodiscard]] double pressure(std::size_t rank) const { return load_[rank] * per_speed_[rank]; }

  [[nodiscard]] bool holds(std::size_t rank, ExpertId expert) const {
    for (SlotId slot : slots(rank)) {
      if (at(slot) == expert) return true;
    }
    return false;
  }

  [[nodiscard]] std::size_t fullest() const {
    std::size_t best = 0;
    for (std::size_t r = 1; r < size(); ++r) {
      if (pressure(r) > pressure(best)) best = r;
    }
    return best;
  }

  /// Share of each of a rank's slots, in order; not a number where it is linked or vacant.
  [[nodiscard]] std::span<const double> free_shares(std::size_t rank) const {
    return std::span(free_share_).subspan(slots(rank).first().index(), slots(rank).size());
  }

  /// Of the fuller of the two ranks once they have swapped.
  [[nodiscard]] double pressure_after(const Site& a, const Site& b) const {
    const double moved = share(a.slot) - share(b.slot);
    return std::max((load_[a.rank] - moved) * per_speed_[a.rank],
                    (load_[b.rank] + moved) * per_speed_[b.rank]);
  }

  void swap(const Site& a, const Site& b) {
    exchange(a, b);
    done_.push_back({a, b});
  }
  [[nodiscard]] std::size_t num_swaps() const noexcept { return done_.size(); }
  void undo_to(std::size_t num_swaps) {
    for (; done_.size() > num_swaps; done_.pop_back()) exchange(done_.back().first, done_.back().second);
  }

 private:
  void exchange(const Site& a, const Site& b) {
    std::swap(row_[a.slot.index()], row_[b.slot.index()]);
    count(a.rank);
    count(b.rank);
  }

  void count(std::size_t rank);

  std::span<const double> share_;  ///< Of one copy, by ExpertId.
  const Topology& topology_;
  std::span<const Rank> ranks_;
  std::span<ExpertId> row_;
  std::vector<std::size_t> link_of_;  ///< By ExpertId; 0: not linked.
  std::size_t num_points_;
  std::vector<double> per_speed_;  ///< By rank within the region, like those below.
  std::vector<double> load_;
  std::vector<double> free_share_;  ///< By SlotId.
  std::vector<std::size_t> degree_;
  std::vector<std::pair<Site, Site>> done_;
};

/// The components at one moment, and the copies that could leave their rank without tearing one apart.
struct Components {
  std::vector<std::size_t> of;    ///< By rank: the lowest rank of its component.
  std::vector<std::size_t> size;  ///< By lowest rank; 0 elsewhere.
  std::vector<Site> spare;        ///< All at once, too: what is left still ties all together.
  std::size_t count = 0;
};

/// Which copies are spare depends on the order the ties are looked at: those of the ranks with few linked
/// copies first, so that spare ones lie on ranks with many; or the other way round.
[[nodiscard]] Components find_components(const RegionRow& row, bool few_first = true);

}  // namespace trimtab
