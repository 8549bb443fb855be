// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include "plan/bound.hpp"
#include "plan/row.hpp"

namespace trimtab {

/// Plans single layers of one call of plan_rebalance. Immutable after construction, so layers may be planned
/// at once from several threads.
class LayerPlanner {
 public:
  /// Precondition: the sizes and options were checked and are feasible; `locality` is resolved. Borrows
  /// `topology`.
  LayerPlanner(std::int32_t num_experts, const Topology& topology, const PlanOptions& options,
               Locality locality);

  /// Fills `row`, by SlotId. `loads` may be all zero: a dense row.
  [[nodiscard]] LayerReport plan(LayerId layer, LayerLoads loads, std::span<ExpertId> row) const;

 private:
  struct Split {
    std::vector<Region> regions;
    double bound;  ///< On load / speed.
  };

  [[nodiscard]] Split split(LayerLoads loads) const;
  [[nodiscard]] Split split_by_group(LayerLoads loads) const;
  void pack(LayerLoads loads, const Split& split, std::span<ExpertId> row) const;
  void keep_identity_if_better(LayerLoads loads, std::span<ExpertId> row) const;

  const Topology& topology_;
  PlanOptions options_;
  Locality locality_;
  Region everything_;
  std::vector<NodeRanks> nodes_;               ///< Only under group_strict.
  std::vector<std::vector<ExpertId>> groups_;  ///< Only under group_strict.
  std::vector<ExpertId> identity_;             ///< As a service starts.
  std::vector<ExpertId> live_identity_;        ///< The same with dead ranks vacant.
  bool identity_is_live_;
  bool identity_is_allowed_;  ///< Under the locality.
};

}  // namespace trimtab
