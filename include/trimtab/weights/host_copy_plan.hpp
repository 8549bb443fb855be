// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace trimtab {

/// Which ranks keep host copies of which experts. A value, the same on every rank.
class HostCopyPlan {
 public:
  explicit HostCopyPlan(std::int32_t num_ranks) noexcept : num_ranks_(num_ranks) {}

  /// `keeper` is to be asked after those that were added before it.
  /// @return `invalid_argument`, and no effect, for a rank out of range, or one that keeps it already.
  Status add(LayerId layer, ExpertId expert, Rank keeper);

  [[nodiscard]] std::int32_t num_ranks() const noexcept { return num_ranks_; }
  /// In the order in which they are to be asked; empty when nobody keeps a copy. Valid until the next `add`.
  [[nodiscard]] std::span<const Rank> keepers(LayerId layer, ExpertId expert) const noexcept;
  /// What `keeper` has to have in its HostCopySource, by layer, then expert.
  [[nodiscard]] std::vector<LayerExpert> kept_by(Rank keeper) const;

  friend bool operator==(const HostCopyPlan&, const HostCopyPlan&) = default;

 private:
  std::int32_t num_ranks_;
  std::map<std::pair<LayerId, ExpertId>, std::vector<Rank>> keepers_;
};

/// Gives each expert a keeper: as many experts as there is room for, those first that the fewest live ranks
/// serve. Of all ways to keep these, one with the fewest on a rank that serves them itself, and of those one
/// with the fewest on a node that does. Ranks with more room get more. Dead ranks keep nothing; lost experts
/// are left out, since there is nothing to copy.
///
/// Pure: same input, same plan. Mostly time O(copies x ranks); where little room is left in the right places,
/// up to that per copy.
/// @param budgets  by rank: bundles of any layer that it may keep
/// @return `invalid_argument` for slot counts that disagree, or budgets that are not one per rank or
/// negative.
[[nodiscard]] Result<HostCopyPlan> plan_host_copies(const Placement& placement, const Topology& topology,
                                                    std::span<const std::int32_t> budgets);

}  // namespace trimtab
