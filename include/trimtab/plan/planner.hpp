// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace trimtab {

/// How far from its home an expert may be placed.
enum class Locality : std::uint8_t {
  automatic,     ///< group_strict when `num_groups > 1` and the nodes divide the groups, else none.
  none,          ///< Any expert on any rank.
  group_strict,  ///< All replicas of an expert group inside one node; each node holds equally many groups.
  group_spill,   ///< Each group has a home node as under group_strict, but a limited share of the load may be
                 ///< served by replicas elsewhere: the way past the load of the fullest node.
};

/// "automatic", "none", "group-strict", "group-spill".
[[nodiscard]] std::string_view to_string(Locality locality) noexcept;

/// How much work a layer may get. Each is a fixed number of steps, so the plan does not depend on the
/// machine.
enum class Effort : std::uint8_t {
  fast,      ///< Counts and heaviest first in one pass, two swaps where copies got in each other's way.
  standard,  ///< "default": swaps, and where a layer is not near its bound a search of counts and places.
  thorough,  ///< The same search for every layer above its bound, and ten times longer.
};

/// "fast", "default", "thorough".
[[nodiscard]] std::string_view to_string(Effort effort) noexcept;

/// What is made small when there are several load scenarios.
enum class Objective : std::uint8_t {
  worst,          ///< The imbalance of the worst scenario.
  weighted_mean,  ///< The mean of the imbalances, weighted by scenario.
};

/// "worst", "weighted-mean".
[[nodiscard]] std::string_view to_string(Objective objective) noexcept;

/// How tokens will be shared by the replicas of an expert, which is what a placement is made for.
enum class ShareMode : std::uint8_t {
  even,   ///< Even shares.
  exact,  ///< The best split of each batch. Its optimum is what is made small; where placements reach the
          ///< same, replicas connect the ranks (within each node where groups have homes), so that load can
          ///< flow between any two by shares alone, and even shares stay as even as they can.
};

struct PlanOptions {
  Effort effort = Effort::standard;
  Locality locality = Locality::automatic;
  std::int32_t num_groups = 1;  ///< Consecutive, equally large expert groups per layer.
  double spill = 0.1;           ///< Under group_spill: share of a layer's load, 0 to 1, under even shares.
  ShareMode shares = ShareMode::even;
  Objective objective = Objective::worst;
  std::vector<double> weights =
      {};  ///< Under weighted_mean: one per scenario, >= 0, not all 0; empty: equal.
  bool allow_vacant =
      false;  ///< Leave a slot vacant rather than put a second copy of an expert on its rank (I3).
};

/// What a plan does for one layer. With several scenarios an imbalance is that of the worst scenario, or the
/// weighted mean, as the objective says; scenarios that do not load the layer have no say in it.
struct LayerReport {
  LayerId layer;
  bool is_dense = false;          ///< Zero load: kept as identity; not to be listed or averaged.
  double imbalance_before = 1.0;  ///< Of the identity placement (slot s holds expert s mod E), even shares.
  double imbalance = 1.0;         ///< Of the planned placement, even shares.
  /// Of the planned placement when each scenario's load is split as well as it can be. Only where it was
  /// planned for the exact split; 1.0 where dense.
  std::optional<double> imbalance_exact = {};
  /// No placement under the same options has a smaller imbalance, under the shares it is planned for.
  double bound = 1.0;
  double spill = 0.0;  ///< Under group_spill: share of the load served outside the home node of its group.
  std::int32_t duplicates_on_rank = 0;  ///< Slots whose rank holds the same expert in a lower slot (I2).

  /// Under the shares that the placement was planned for: what the plan makes small.
  [[nodiscard]] double reached() const noexcept { return imbalance_exact.value_or(imbalance); }
  /// How far the plan may be from the best one: reached / bound - 1.
  [[nodiscard]] double gap() const noexcept { return reached() / bound - 1.0; }
};

struct Plan {
  Placement placement;
  std::vector<LayerReport> layers;  ///< One for each row of the load, dense rows included.
  Locality locality;                ///< As resolved; never `automatic`.
};

/// Plans replicas and places for every layer: counts by highest average load, heaviest replica first onto the
/// lightest rank that has room and not yet that expert (with a repair when none is left), swaps, and where
/// that leaves a layer above its bound a search of counts and places together. docs/design/0003-planner.md
/// has the method, its sources and the proofs of the bound.
///
/// Pure: same input, same output, on any executor, thread count and process. Layers are planned in parallel
/// over `executor`. Zero load spreads redundancy evenly (I4) except in dense rows, which stay identity.
/// @return `infeasible` when the live slots are fewer than the experts (per node under group_strict and
///         group_spill); `invalid_argument` when the groups do not divide the experts, when the nodes do not
///         divide the groups under group_strict or group_spill, or when the spill is not in [0, 1].
[[nodiscard]] Result<Plan> plan_rebalance(const LoadMatrix& loads, const Topology& topology,
                                          const PlanOptions& options, Executor& executor);

/// The same for several load scenarios at once: one plan that is good under all of them.
/// @return besides `invalid_argument` when there is no scenario, when their sizes differ, or when the weights
///         are not one per scenario, negative, not finite or all zero.
[[nodiscard]] Result<Plan> plan_rebalance(std::span<const LoadMatrix> scenarios, const Topology& topology,
                                          const PlanOptions& options, Executor& executor);

}  // namespace trimtab
