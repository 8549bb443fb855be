// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include "plan/anneal.hpp"
#include "plan/parts.hpp"

namespace trimtab {

/// Where improvement ends: above what no placement can beat by a fraction of the noise of any batch.
inline constexpr double good_enough = 1.0 + 3e-4;

/// Plans single layers of one call of plan_rebalance. Immutable after construction, so layers may be planned
/// at once from several threads.
class LayerPlanner {
 public:
  /// Precondition: the sizes and options were checked and are feasible; `locality` is resolved. Borrows
  /// `topology`.
  LayerPlanner(std::int32_t num_experts, const Topology& topology, const PlanOptions& options,
               Locality locality);

  /// Fills `row`, by SlotId.
  /// @param scenarios  loads of the layer, one per scenario; all zero in all of them: a dense row
  [[nodiscard]] LayerReport plan(LayerId layer, std::span<const LayerLoads> scenarios,
                                 std::span<ExpertId> row) const;

 private:
  /// A scenario that loads the layer.
  struct Scenario {
    LayerLoads loads;
    double weight;  ///< The weights add up to 1.
    double mean;    ///< Load / speed if all ranks were even.
    Parts parts;

    [[nodiscard]] double bound(ShareMode shares) const noexcept {
      return shares == ShareMode::exact ? parts.exact_bound : parts.bound;
    }
  };

  [[nodiscard]] std::vector<Scenario> loaded(std::span<const LayerLoads> scenarios) const;
  /// `parts` are those of `loads`.
  void plan_one(LayerLoads loads, const Parts& parts, std::span<ExpertId> row) const;
  /// Fills `row` and all of `report` but the duplicates. Precondition: at least one scenario.
  void plan_loaded(std::span<Scenario> under, std::span<ExpertId> row, LayerReport& report) const;
  /// For even shares.
  /// @return the parts that the plan was made in
  Parts plan_even(std::span<const Scenario> scenarios, std::span<ExpertId> row) const;
  Parts plan_several(std::span<const Scenario> scenarios, std::span<ExpertId> row) const;
  /// The weighted mean of the scenarios, each in units of its mean.
  [[nodiscard]] std::vector<double> common_loads(std::span<const Scenario> scenarios) const;

  /// Replicas of one region onto its ranks, heaviest first; writes only their slots.
  /// @return whether keeping copies apart held the packing back
  bool fill(LayerLoads loads, const Part& part, double bound, std::span<ExpertId> row) const;
  /// A swap or two, for what keeping copies apart has cost.
  void touch_up(LoadView& view, const Parts& parts) const;
  void search(std::span<LoadView> views, const Parts& parts) const;
  [[nodiscard]] std::vector<LoadView> views_of(std::span<const Scenario> scenarios, ShareMode shares,
                                               Row row) const;

  /// Plans for the exact split: never above what the plan for even shares reaches under it.
  /// @return the optimum, as the objective has it
  double plan_exact(std::span<const Scenario> scenarios, std::span<ExpertId> row, Parts& parts) const;
  /// Makes of a row planned for even shares one for the exact split, whose optimum is not above that of
  /// `row`.
  /// @return its optimum, as the objective has it
  double plan_for_split(std::span<const Scenario> scenarios, const Parts& parts,
                        std::span<ExpertId> row) const;
  void search_split(std::span<LoadView> views, const Parts& parts) const;
  /// Swaps experts so that the replica graph is connected, if that costs little.
  double connect(std::span<const Scenario> scenarios, double exact, std::span<ExpertId> row) const;
  /// Puts the identity into `row` where it is better, unless the locality or I2 forbids it.
  void keep_identity(std::span<const Scenario> scenarios, std::span<ExpertId> row) const;
  /// Where `imbalance` is not near the bound of the scenario, looks for a higher one.
  void sharpen_bound(Scenario& scenario, double imbalance) const;
  /// As the objective has it; > 0.
  [[nodiscard]] double imbalance_of(std::span<const Scenario> scenarios, Row row) const;
  [[nodiscard]] double exact_imbalance_of(std::span<const Scenario> scenarios, Row row) const;
  [[nodiscard]] double bound_of(std::span<const Scenario> scenarios, ShareMode shares) const;
  template <class Value>
  [[nodiscard]] double by_objective(std::span<const Scenario> scenarios, Value value) const;

  const Topology& topology_;
  PlanOptions options_;
  PartMaker part_maker_;
  bool locality_is_by_group_;
  std::vector<ExpertId> identity_;       ///< As a service starts.
  std::vector<ExpertId> live_identity_;  ///< The same with dead ranks vacant.
  bool identity_is_live_;
  bool identity_is_allowed_;  ///< Under the locality.
};

}  // namespace trimtab
