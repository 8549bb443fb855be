// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "split/relief.hpp"
#include "split/share_network.hpp"
#include "split/whole_limits.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Moves whole assignments between the ranks of a network until their loads are as even as its edges allow.
///
/// A region of ranks is brought to equal load / speed as far as it goes. Ranks that stay above, with what
/// they can reach, and the rest, with what stays below, are then regions of their own.
class Leveller {
 public:
  enum class Depth : std::uint8_t {
    top,  ///< Only until the largest load / speed is the least possible.
    all,  ///< Until no exchange along any chain helps any rank.
  };

  /// Borrows the network.
  explicit Leveller(const ShareNetwork& network);

  /// `flow.on_edge` and `flow.load` are to be set before, and hold the result. No allocation.
  void level(ShareFlow<std::int64_t>& flow, Depth depth);

 private:
  struct Region {
    std::int32_t begin, end;  ///< Of `order_`.
  };

  void settle(const Region& region, ShareFlow<std::int64_t>& flow);
  [[nodiscard]] std::span<Rank> ranks_of(const Region& region);
  [[nodiscard]] double max_pressure(const Region& region, const ShareFlow<std::int64_t>& flow);
  [[nodiscard]] std::int32_t move_above_to_front(const Region& region);
  void add(Region region);

  const ShareNetwork& network_;
  WholeLimits limits_;
  Relief relief_;
  std::vector<Rank> order_;  ///< Ranks with edges, region after region, parents before children in each.
  std::vector<Rank> scratch_;
  std::vector<std::int32_t> region_of_;  ///< By Rank: where its region begins.
  std::vector<Region> open_;
  double settled_pressure_ = 0.0;  ///< Largest load / speed of a rank that is done.
};

}  // namespace trimtab
