// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include "plan/delta_curve.hpp"
#include "plan/diff_row.hpp"
#include "plan/group_homes.hpp"

namespace trimtab {

/// One layer of a delta plan. Borrows everything.
struct DeltaTask {
  LayerLoads loads;
  const Topology& topology;
  RankedRow before;
  const Holders& holders;  ///< Of `before`.
  Row full;                ///< The full re-plan.
  double full_pressure = 0.0;
  double target = 0.0;            ///< Load / speed that is even enough.
  std::int32_t num_groups = 0;    ///< That must stay together; 0: none need to.
  bool may_leave_vacant = false;  ///< PlanOptions::allow_vacant.
  bool is_fine = false;           ///< DeltaOptions::fine_curve.
};

/// Searches for placements of one layer by few moves.
class LayerDeltaPlanner {
 public:
  explicit LayerDeltaPlanner(const DeltaTask& task);

  [[nodiscard]] DeltaCurve run();
  /// `before` in the slots of the topology.
  [[nodiscard]] Row carried_over() const noexcept { return carried_; }

 private:
  void search_under(std::span<const NodeId> home);
  [[nodiscard]] std::vector<ExpertId> make_valid(const DeltaLayer& layer);
  void search(const DeltaLayer& layer, Row start, double limit, std::span<const double> bonuses);
  void search_by_squares(const DeltaLayer& layer, Row start);
  void walk(DeltaSearch& search, std::size_t max_steps, bool may_change_counts);
  void search_with_counts_of_full(const DeltaLayer& layer, Row start);
  void search_by_group();
  void end_in_full();
  [[nodiscard]] bool is_tight() const;
  [[nodiscard]] bool is_reached() const noexcept { return curve_.reaches(limit_); }

  DeltaTask task_;
  double limit_;   ///< The target, and rounding.
  bool has_room_;  ///< More than two slots per rank: single changes get far.
  std::vector<ExpertId> carried_;
  std::vector<ExpertId> relabelled_;  ///< The full re-plan, with fewest moves.
  DeltaCurve curve_;
};

}  // namespace trimtab
