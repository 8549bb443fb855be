// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>
#include <trimtab/plan/planner.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab {

/// A plan in a few numbers. Means are unweighted over the layers that are not dense; 1.0 when there are none.
struct PlanSummary {
  std::int32_t layers = 0;  ///< That are not dense.
  double imbalance_before_mean = 1.0;
  double imbalance_mean = 1.0;
  double imbalance_worst = 1.0;  ///< The largest of the plan.
  LayerId worst_layer{0};
  /// Mean and largest imbalance of the best split, where the plan was made for it.
  std::optional<double> exact_mean = {};
  double exact_worst = 1.0;
  double bound_mean = 1.0;
  double gap_mean = 0.0;    ///< Mean of reached / bound - 1.
  double gap_worst = 0.0;   ///< The largest.
  double spill_mean = 0.0;  ///< Mean share of the load served outside the home node of its group.
  std::int32_t duplicates_on_rank = 0;
  std::int32_t vacant_slots = 0;  ///< Over the layers that are not dense.
};

[[nodiscard]] PlanSummary summarize(const Plan& plan);

/// The document `trimtab.plan/1` (docs/formats/json-output.md). Dense layers are not listed.
[[nodiscard]] nlohmann::ordered_json plan_document(const Plan& plan, const PlanSummary& summary,
                                                   double plan_ms);

/// A few lines for a person: before, after, bound, gap, slots, locality.
[[nodiscard]] std::string plan_text(const Plan& plan, const PlanSummary& summary, const Topology& topology,
                                    double plan_ms);

}  // namespace trimtab
