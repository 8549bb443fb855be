// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "split/leveller.hpp"
#include "split/relief.hpp"
#include "split/share_network.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Finds the set of ranks whose confined load / speed is largest, in fractions of an assignment, from any
/// split in whole assignments; fast from one whose largest load / speed is least.
class TightSearch {
 public:
  /// Borrows the network.
  explicit TightSearch(const ShareNetwork& network);

  /// Ascending; valid until the next call. No allocation.
  /// @param regions  as `flow` was levelled in
  /// @param fixed    by Rank: the part of its load that is on no edge
  std::span<const Rank> find(std::span<const LevelRegion> regions, std::span<const std::int64_t> fixed,
                             const ShareFlow<std::int64_t>& flow);

 private:
  [[nodiscard]] double pressure(Rank rank, std::int64_t load) const;
  [[nodiscard]] std::span<const Rank> lone_ranks() const;
  void keep(std::span<const LevelRegion> regions, double least_pressure, const ShareFlow<std::int64_t>& flow);
  [[nodiscard]] double mean(const ShareFlow<std::int64_t>& flow) const;
  [[nodiscard]] double max_pressure(std::span<const LevelRegion> regions,
                                    const ShareFlow<std::int64_t>& flow) const;
  [[nodiscard]] bool find_alone(double most, std::span<const std::int64_t> fixed);
  void start(std::span<const LevelRegion> regions, double most, const ShareFlow<std::int64_t>& flow);
  void set_surplus(const ShareFlow<std::int64_t>& flow);
  void set_surplus_by_speed(const ShareFlow<std::int64_t>& flow);
  [[nodiscard]] bool is_level() const;
  bool shrink(const ShareFlow<std::int64_t>& flow);

  const ShareNetwork& network_;
  bool are_equal_;
  Relief relief_;
  ShareFlow<double>
      excess_;  ///< What is above or below the level of `ranks_`, in fractions of an assignment.
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> region_of_;  ///< By Rank: 0 in `ranks_`, else -1.
  std::vector<Rank> found_;
  double tolerance_ = 0.0;
};

}  // namespace trimtab
