// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace trimtab {

/// How far from its home an expert may be placed.
enum class Locality : std::uint8_t {
  automatic,     ///< group_strict when `num_groups > 1` and the nodes divide the groups, else none.
  none,          ///< Any expert on any rank.
  group_strict,  ///< All replicas of an expert group inside one node; each node holds equally many groups.
};

/// "automatic", "none", "group-strict".
[[nodiscard]] std::string_view to_string(Locality locality) noexcept;

struct PlanOptions {
  Locality locality = Locality::automatic;
  std::int32_t num_groups = 1;  ///< Consecutive, equally large expert groups per layer.
  bool allow_vacant =
      false;  ///< Leave a slot vacant rather than put a second copy of an expert on its rank (I3).
};

/// What a plan does for one layer.
struct LayerReport {
  LayerId layer;
  bool is_dense = false;          ///< Zero load: kept as identity; not to be listed or averaged.
  double imbalance_before = 1.0;  ///< Of the identity placement (slot s holds expert s mod E), even shares.
  double imbalance = 1.0;         ///< Of the planned placement, even shares.
  double bound = 1.0;             ///< No placement under the same options has a smaller imbalance.
  std::int32_t duplicates_on_rank = 0;  ///< Slots whose rank holds the same expert in a lower slot (I2).
};

struct Plan {
  Placement placement;
  std::vector<LayerReport> layers;  ///< One for each row of the load, dense rows included.
  Locality locality;                ///< As resolved; never `automatic`.
};

/// Plans replicas and places for every layer: counts by highest average load, then heaviest replica first
/// onto the lightest rank that has room and not yet that expert, with a repair when none is left. Sources:
/// D'Hondt's method of highest averages; Graham's LPT (1969); the group-then-node order is that of DeepSeek's
/// EPLB.
///
/// Pure: same input, same output, on any executor, thread count and process. Ties go to the lower expert,
/// then the lower rank. Layers are planned in parallel over `executor`. Zero load spreads redundancy evenly
/// (I4) except in dense rows, which stay identity.
/// @return `infeasible` when the live slots are fewer than the experts (per node under group_strict);
/// `invalid_argument` when
///         the groups do not divide the experts, or for group_strict when the nodes do not divide the groups.
[[nodiscard]] Result<Plan> plan_rebalance(const LoadMatrix& loads, const Topology& topology,
                                          const PlanOptions& options, Executor& executor);

}  // namespace trimtab
