// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace trimtab::test {

/// One layer to be split.
struct SplitCase {
  Topology topology;
  std::int32_t num_experts = 0;
  std::vector<ExpertId> row;
  std::vector<std::int64_t> loads;
};

/// What is drawn.
struct SplitLimits {
  std::int32_t ranks = 6;
  std::int32_t slots_per_rank = 4;
  std::int64_t load = 40;
  bool has_speeds = false;  ///< Unequal ones, in half of the cases.
};

/// Any row in which every expert has a live slot: ragged, vacant and dead slots, second copies on a rank,
/// zero and equal loads, outliers.
[[nodiscard]] SplitCase draw_split_case(const SplitLimits& limits, std::mt19937_64& random);

/// Load that `ranks` (a bit for each) must carry: of experts whose live slots all lie there.
[[nodiscard]] std::int64_t confined_load(const SplitCase& drawn, std::uint32_t ranks);

/// The largest confined load over speed of any set of live ranks, all sets tried: what Hall's condition says
/// no fractional split is below.
[[nodiscard]] double best_pressure(const SplitCase& drawn);

/// The least level whose rounded-down capacities floor(level * speed) pass Hall's condition on every set of
/// ranks.
[[nodiscard]] double best_whole_pressure(const SplitCase& drawn);

/// Load of each rank under `assignments`.
[[nodiscard]] std::vector<std::int64_t> rank_loads_of(const SplitCase& drawn,
                                                      std::span<const std::int64_t> assignments);

/// All rank loads that splits in whole assignments can have. For tiny cases.
[[nodiscard]] std::vector<std::vector<std::int64_t>> all_rank_loads(const SplitCase& drawn);

}  // namespace trimtab::test
