// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include "plan/bound.hpp"

#include <optional>

namespace trimtab {

struct Part {
  Region region;
  std::vector<std::int32_t> counts;  ///< By ExpertId, 0 outside the region.
};

/// How the locality divides one layer into regions that are packed apart.
struct Parts {
  std::vector<Part> parts;
  std::vector<NodeId> home;  ///< By ExpertId: the node of its group. Empty without groups in nodes.
  double bound;              ///< No placement under the locality has every rank at a smaller load / speed.
  double exact_bound;        ///< The same whatever shares the replicas have.
};

/// Divides the layers of one call of plan_rebalance. Immutable after construction.
class PartMaker {
 public:
  /// Precondition: checked sizes and options; `locality` is resolved. Borrows `topology`.
  PartMaker(std::int32_t num_experts, const Topology& topology, const PlanOptions& options,
            Locality locality);

  [[nodiscard]] Parts make(LayerLoads loads) const;
  /// The same parts with counts for the exact split; none where these are no others.
  [[nodiscard]] std::optional<Parts> count_for_split(LayerLoads loads, const Parts& parts) const;
  /// A bound at least as high as `bound`, for ranks of few slots, where the mean says little.
  /// @param reached  load / speed of the fullest rank of a placement of these loads
  [[nodiscard]] double sharpen(LayerLoads loads, ShareMode shares, double bound, double reached) const;
  /// The whole layer.
  [[nodiscard]] const Region& everything() const noexcept { return everything_; }

 private:
  [[nodiscard]] Parts make_whole(LayerLoads loads) const;
  [[nodiscard]] Parts make_by_group(LayerLoads loads) const;
  [[nodiscard]] double bound_of_everything(LayerLoads loads, std::span<const std::int32_t> counts) const;

  const Topology& topology_;
  Locality locality_;
  double spill_;
  Region everything_;
  bool speeds_are_equal_;
  std::vector<NodeRanks> nodes_;               ///< Only with groups in nodes.
  std::vector<std::vector<ExpertId>> groups_;  ///< Only with groups in nodes.
};

}  // namespace trimtab
