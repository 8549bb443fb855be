// SPDX-License-Identifier: Apache-2.0
#include "support/exact_split.hpp"

#include <trimtab/split/split_solver.hpp>

#include <numeric>

namespace trimtab::test {

double best_split_imbalance(std::span<const double> loads, std::span<const ExpertId> row,
                            const Topology& topology) {
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (total == 0.0) return 1.0;
  SplitSolver solver = SplitSolver::make(row, static_cast<std::int32_t>(loads.size()), topology).value();
  return solver.optimum(loads) / (total / topology.total_speed());
}

}  // namespace trimtab::test
