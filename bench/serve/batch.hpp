// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace trimtab::bench {

inline constexpr std::int32_t num_experts = 256;
inline constexpr std::int32_t num_slots = 288;
inline constexpr std::int32_t num_ranks = 32;
inline constexpr std::int32_t num_layers = 4;
inline constexpr std::int32_t top_k = 8;
inline constexpr std::size_t num_assignments = 65536 * std::size_t{top_k};

/// The first 32 experts have two replicas.
inline RoutingTable make_table(std::uint64_t epoch) {
  return RoutingTable::compile(Placement::identity(num_layers, num_slots, num_experts).value(),
                               Topology::make_uniform(num_ranks, 4, num_slots).value(),
                               {.epoch = Epoch{epoch}})
      .value();
}

/// Experts whose popularity falls off like a lognormal, as real ones do.
inline std::vector<ExpertId> make_experts(std::size_t count = num_assignments) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> popularity(0.0, 0.8);
  std::vector<double> weights(num_experts);
  for (double& weight : weights) weight = popularity(random);
  std::discrete_distribution<std::int32_t> choose(weights.begin(), weights.end());
  std::vector<ExpertId> experts(count);
  for (ExpertId& expert : experts) expert = ExpertId{choose(random)};
  return experts;
}

}  // namespace trimtab::bench
