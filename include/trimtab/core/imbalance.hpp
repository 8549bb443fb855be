// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <span>
#include <vector>

namespace trimtab {

/// How even the ranks are, from the fullest rank and the mean; loads are divided by rank speed.
struct Imbalance {
  double max = 0.0;   ///< Largest load / speed over live ranks.
  double mean = 0.0;  ///< Total load / total speed over live ranks.

  /// imbalance: max / mean; 1.0 is perfect. 1.0 for zero load.
  [[nodiscard]] double max_over_mean() const noexcept { return mean > 0.0 ? max / mean : 1.0; }
  /// balancedness as SGLang and vLLM print it: mean / max; 1.0 is perfect.
  [[nodiscard]] double balancedness() const noexcept { return max > 0.0 ? mean / max : 1.0; }
  /// imbalance ratio as TensorRT-LLM prints it: (max - mean) / mean; 0.0 is perfect.
  [[nodiscard]] double excess() const noexcept { return max_over_mean() - 1.0; }
};

/// From the load each rank carries. `rank_loads.size() == topology.num_ranks()`.
[[nodiscard]] Imbalance compute_imbalance(std::span<const double> rank_loads, const Topology& topology);

/// Load of each rank of one layer when every live replica of an expert takes an even share.
/// @param expert_loads  load by logical expert
/// @param layer         expert held by each slot, `no_expert` where vacant
/// Slots on dead ranks carry nothing.
[[nodiscard]] std::vector<double> compute_rank_loads(std::span<const double> expert_loads,
                                                     std::span<const ExpertId> layer,
                                                     const Topology& topology);

}  // namespace trimtab
