// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "split/leveller.hpp"

#include <span>
#include <vector>

namespace trimtab {

/// Ranks that hold the optimum up: load that no other rank can take, over their speed.
struct TightSet {
  double optimum = 0.0;
  std::span<const Rank> ranks;
};

/// Finds the optimum in fractions of an assignment, and the ranks that prove it, from a split that is best in
/// whole assignments.
class TightSearch {
 public:
  /// Borrows the network.
  explicit TightSearch(const ShareNetwork& network);

  /// The tightest set of ranks inside `top`, a region that Leveller found for `flow`. Valid until the next
  /// call. No allocation.
  TightSet find(const TopRegion& top, const ShareFlow<std::int64_t>& flow);

 private:
  void set_surplus(std::int64_t load, const ShareFlow<std::int64_t>& flow);
  [[nodiscard]] bool is_level() const;
  bool shrink(const ShareFlow<std::int64_t>& flow);

  const ShareNetwork& network_;
  bool are_equal_;
  Relief relief_;
  ShareFlow<double>
      excess_;  ///< What is above or below the level of `ranks_`, in fractions of an assignment.
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> region_of_;  ///< By Rank: 0 in `ranks_`, else -1.
  double tolerance_ = 0.0;
};

}  // namespace trimtab
