// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>

namespace trimtab::bench {

/// What a placement is worth for the loads it was made from, from the definitions.
struct Quality {
  double imbalance = 0.0;   ///< Mean over layers.
  double duplicates = 0.0;  ///< Second copies of an expert on a rank, over all layers.
  double moves = 0.0;       ///< Per layer: slots whose rank lacked that copy under the identity placement.
};

[[nodiscard]] Quality quality_of(const Placement& placement, const LoadMatrix& loads,
                                 const Topology& topology);

}  // namespace trimtab::bench
