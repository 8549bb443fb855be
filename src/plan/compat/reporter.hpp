// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include "plan/bound.hpp"
#include "plan/row.hpp"

namespace trimtab {

/// Judges layers that another planner made as plan_rebalance judges its own. Immutable after construction, so
/// layers may be judged at once from several threads.
class CompatReporter {
 public:
  /// Precondition: equal live ranks; under group_strict nodes divide groups and groups divide experts.
  /// Borrows `topology`.
  CompatReporter(std::int32_t num_experts, std::int32_t num_groups, const Topology& topology,
                 Locality locality);

  [[nodiscard]] LayerReport report(LayerId layer, LayerLoads loads, Row row) const;

 private:
  [[nodiscard]] double bound_on_pressure(LayerLoads loads) const;

  const Topology& topology_;
  Region everything_;
  std::vector<std::vector<ExpertId>> groups_;  ///< Only under group_strict.
  std::vector<NodeRanks> nodes_;               ///< Only under group_strict.
  std::vector<ExpertId> identity_;
};

}  // namespace trimtab
