// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/split/split_solver.hpp>

#include "split/relief.hpp"
#include "split/share_network.hpp"
#include "split/whole_limits.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Ranks that nothing more can be moved between.
struct LevelRegion {
  std::span<const Rank> ranks;
  double max_pressure = 0.0;  ///< Largest load / speed.
  bool is_last = false;       ///< Of its component.
};

/// Moves whole assignments between the ranks of a network until their loads are as even as its edges allow.
///
/// A region of ranks is brought to equal load / speed as far as it goes. Ranks that stay above, with what
/// they can reach, and the rest, with what stays below, are then regions of their own.
class Leveller {
 public:
  /// Borrows the network.
  explicit Leveller(const ShareNetwork& network);

  /// `flow.on_edge` and `flow.load` are to be set before, and hold the result. No allocation.
  /// @param fixed  by Rank: the part of its load that is on no edge
  void level(ShareFlow<std::int64_t>& flow, std::span<const std::int64_t> fixed, SplitDepth depth);

  /// Component after component. Load can move from a region to those before it in its component, but to none
  /// after it. Valid until the next call of `level`.
  [[nodiscard]] std::span<const LevelRegion> regions() const noexcept { return done_; }

 private:
  struct Region {
    std::int32_t begin, end;  ///< Of `order_`.
    bool is_last;             ///< Of its component.
  };

  void set_limits(std::span<const Rank> ranks, std::span<const std::int64_t> fixed, SplitDepth depth,
                  ShareFlow<std::int64_t>& flow);
  [[nodiscard]] bool level(const Region& region, ShareFlow<std::int64_t>& flow);
  [[nodiscard]] std::span<Rank> ranks_of(const Region& region);
  [[nodiscard]] double max_pressure(std::span<const Rank> ranks, std::span<const std::int64_t> loads) const;
  [[nodiscard]] std::int32_t move_upper_to_front(const Region& region);
  void add(Region region);

  const ShareNetwork& network_;
  WholeLimits limits_;
  Relief relief_;
  std::vector<Rank> order_;  ///< Ranks with edges, region after region, parents before children in each.
  std::vector<Rank> scratch_;
  std::vector<std::int32_t> region_of_;  ///< By Rank: where its region begins.
  std::vector<Region> open_;
  std::vector<LevelRegion> done_;
};

}  // namespace trimtab
