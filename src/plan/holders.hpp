// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/row.hpp"

namespace trimtab {

/// Where the experts of a layer lie before a change: the ranks that moves are counted from. O(slots +
/// experts).
class Holders {
 public:
  /// Slots of dead ranks do not count. Precondition: experts in `row` are below `num_experts`.
  Holders(Row row, std::int32_t num_experts, const Topology& topology);

  /// Ascending, each as often as it holds the expert.
  [[nodiscard]] std::span<const Rank> of(ExpertId expert) const noexcept {
    return std::span(ranks_).subspan(first_[expert.index()],
                                     first_[expert.index() + 1] - first_[expert.index()]);
  }
  [[nodiscard]] bool holds(Rank rank, ExpertId expert) const noexcept {
    for (Rank holder : of(expert)) {
      if (holder == rank) return true;
    }
    return false;
  }

 private:
  std::vector<std::size_t> first_;  ///< By ExpertId, and the total at the end.
  std::vector<Rank> ranks_;
};

}  // namespace trimtab
