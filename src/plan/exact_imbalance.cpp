// SPDX-License-Identifier: Apache-2.0
#include "plan/exact_imbalance.hpp"

#include <trimtab/core/assert.hpp>
#include <trimtab/core/imbalance.hpp>
#include <trimtab/split/split_solver.hpp>

#include <numeric>

namespace trimtab {

double exact_imbalance(LayerLoads loads, Row row, const Topology& topology) {
  Result<SplitSolver> solver = SplitSolver::make(row, static_cast<std::int32_t>(loads.size()), topology);
  TRIMTAB_ASSERT(solver.has_value());
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  return Imbalance{solver->optimum(loads), total / topology.total_speed()}.max_over_mean();
}

}  // namespace trimtab
