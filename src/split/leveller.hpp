// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "split/relief.hpp"
#include "split/share_network.hpp"
#include "split/whole_limits.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Ranks whose load can flow among themselves only, and what they carry.
struct TopRegion {
  std::span<const Rank> ranks;
  std::int64_t load = 0;
};

/// Moves whole assignments between the ranks of a network until their loads are as even as its edges allow.
///
/// A region of ranks is brought to equal load / speed as far as it goes; what stays above can reach nothing
/// below, and what stays below cannot be reached, so both are regions of their own, levelled the same way.
class Leveller {
 public:
  enum class Depth : std::uint8_t {
    top,  ///< Only until the largest load / speed is the least possible.
    all,  ///< Until no exchange along any chain helps any rank.
  };

  /// Borrows the network.
  explicit Leveller(const ShareNetwork& network);

  /// `flow.on_edge` and `flow.load` of the network's ranks are to be set before, and hold the result. No
  /// allocation.
  void level(ShareFlow<std::int64_t>& flow, Depth depth);

  /// Of each component, the region of its fullest ranks. Valid until the next call of `level`.
  [[nodiscard]] std::span<const TopRegion> tops() const noexcept { return tops_; }

 private:
  struct Region {
    std::int32_t begin, end;  ///< Of `order_`.
    bool is_top;
  };

  void settle(const Region& region, ShareFlow<std::int64_t>& flow, Depth depth);
  [[nodiscard]] std::span<Rank> ranks_of(const Region& region);
  template <class Predicate>
  std::int32_t move_to_front(const Region& region, Predicate predicate);
  void add(Region region);
  void add_top(const Region& region, const ShareFlow<std::int64_t>& flow);

  const ShareNetwork& network_;
  WholeLimits limits_;
  Relief relief_;
  std::vector<Rank> order_;  ///< Ranks with edges, region after region, parents before children in each.
  std::vector<Rank> scratch_;
  std::vector<std::int32_t> region_of_;  ///< By Rank: where its region begins.
  std::vector<Region> open_;
  std::vector<TopRegion> tops_;
};

}  // namespace trimtab
