// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/plan/planner.hpp>

#include <string>
#include <vector>

namespace trimtab::test {

/// Planned on the calling thread; stops the test program where planning fails.
[[nodiscard]] Plan plan_of(const LoadMatrix& loads, const Topology& topology,
                           const PlanOptions& options = {});

/// Written anew, by other means than the planner's own count: pairs of equal neighbours among the sorted
/// experts of each rank.
[[nodiscard]] std::int32_t duplicates_in(const Placement& placement, LayerId layer, const Topology& topology);

/// max / mean of a layer under even shares.
[[nodiscard]] double imbalance_of(const LoadMatrix& loads, const Placement& placement, LayerId layer,
                                  const Topology& topology);

/// Replicas of each expert of a layer.
[[nodiscard]] std::vector<std::size_t> replica_counts(const Placement& placement, LayerId layer);

/// Empty, or the first broken promise: experts live (I1), duplicates only where a rank has more slots than
/// its region has experts (I2), dead ranks and nothing else vacant (I3), reports that tell the truth.
[[nodiscard]] std::string broken_promise(const Plan& plan, const LoadMatrix& loads, const Topology& topology,
                                         const PlanOptions& options);

}  // namespace trimtab::test
