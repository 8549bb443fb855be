// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/cluster_options.hpp"

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <string>

namespace trimtab {

/// The placement in `path`, for loads that were read from `loads_path`.
/// @return the reader's errors; `invalid_argument` naming both files when their layers differ in number.
[[nodiscard]] Result<Placement> read_placement_for(const std::string& path, const LoadMatrix& loads,
                                                   const std::string& loads_path);

/// The cluster with the slots of the placement. Usage error when the options tell another number.
[[nodiscard]] Topology make_topology_for(const ClusterOptions& cluster, const Placement& placement);

}  // namespace trimtab
