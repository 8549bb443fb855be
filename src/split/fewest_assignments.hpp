// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// A split whose used replicas have so many assignments or more, but for experts that have only one left.
struct CoarseSplit {
  double max_pressure = 0.0;
  std::int32_t num_given_up = 0;  ///< Replicas that were given up.
};

/// From the exact split in `assignments`, which is replaced. A heuristic: exact would be semi-continuous.
/// Precondition: as for SplitSolver, and checked.
[[nodiscard]] CoarseSplit raise_smallest_shares(std::span<const ExpertId> row,
                                                std::span<const std::int64_t> loads, const Topology& topology,
                                                std::int64_t least, std::span<std::int64_t> assignments);

}  // namespace trimtab
