// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/region.hpp"

namespace trimtab {

/// How many copies the experts of a region may have without two copies of one expert on one rank.
///
/// Counts c_1 >= c_2 >= … can be so placed on ranks of k_b slots exactly when for each j the j largest
/// counts together are at most sum_b min(k_b, j) (Gale 1957, Ryser 1957). If one set of counts qualifies, so
/// does every smaller one; so an expert that cannot be raised now can never be raised later.
class CopyRoom {
 public:
  /// One copy of each expert of `region` is already in. Precondition: they fit.
  /// @param max_raises  further copies allowed in total, at most what the slots can hold
  CopyRoom(const Region& region, const Topology& topology, std::int64_t max_raises);
  CopyRoom(const Region& region, const Topology& topology);

  /// Whether an expert that has `copies` may have one more.
  [[nodiscard]] bool admits(std::int32_t copies) const noexcept;
  /// Whether nothing may be raised any more.
  [[nodiscard]] bool is_exhausted() const noexcept { return room_.back() == 0; }
  /// Precondition: `admits(copies)`.
  void raise(std::int32_t copies);

 private:
  /// How many experts have more than `copies`: an expert raised from `copies` sorts right behind them.
  [[nodiscard]] std::size_t num_above(std::int32_t copies) const noexcept;

  std::vector<std::int64_t> room_;              ///< [j]: copies that the j+1 largest counts can still take.
  std::vector<std::size_t> num_with_at_least_;  ///< [c]: experts with at least c copies.
};

/// Replica counts by ExpertId (0 outside `experts`): starting from one each, the expert with the highest
/// load / capacity[copies] is raised until `room` admits no more. Equal averages: the lower expert; an
/// average of zero: the expert with fewer copies (I4). O((E + raises) log E).
/// @param capacity  by number of copies, not falling; index 0 unused
/// @param ample     up to this average, further copies of replicated experts count half: more experts get a
///                  second copy before any gets a third. Averages above it are as small as without it.
[[nodiscard]] std::vector<std::int32_t> raise_highest_average(LayerLoads loads,
                                                              std::span<const ExpertId> experts,
                                                              std::span<const double> capacity, CopyRoom room,
                                                              double ample = 0.0);

/// Replica counts that can be placed without two copies of an expert on a rank; they fill every slot that
/// can hold a different expert, and no such counts have a smaller largest load / count.
[[nodiscard]] std::vector<std::int32_t> count_replicas(LayerLoads loads, const Region& region,
                                                       const Topology& topology);

/// The same for the exact split, except that a load / count of little weight beside that of a rank is small
/// enough: then more experts have two copies, so that more load can be shifted.
[[nodiscard]] std::vector<std::int32_t> count_replicas_for_split(LayerLoads loads, const Region& region,
                                                                 const Topology& topology);

struct Duplicate {
  Rank rank;
  ExpertId expert;
};

/// A second (third, …) copy for each slot of a rank with more slots than the region has experts; such a rank
/// holds every expert anyway. Highest average first, the same expert on all such ranks so that alike
/// ranks stay alike; zero averages one by one. Raises `counts`.
[[nodiscard]] std::vector<Duplicate> force_duplicates(LayerLoads loads, const Region& region,
                                                      const Topology& topology,
                                                      std::vector<std::int32_t>& counts);

}  // namespace trimtab
