// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split_solver.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/recorded_loads.hpp"
#include "unit/weights/allocation_count.hpp"

namespace trimtab::test {
namespace {

using Loads = std::vector<std::int64_t>;

Loads whole_loads(const LoadMatrix& loads, LayerId layer) {
  Loads whole;
  for (double load : loads.layer(layer)) whole.push_back(static_cast<std::int64_t>(load));
  return whole;
}

/// Solves planned layers cold and warm, with drifted loads in between; returns what was allocated meanwhile.
std::size_t allocations_of(const LoadMatrix& loads, const Topology& topology) {
  const Plan plan = plan_of(loads, topology, {.effort = Effort::fast});
  std::size_t count = 0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) continue;
    const Loads first = whole_loads(loads, layer);
    Loads second = first;
    for (std::size_t e = 0; e < second.size(); ++e) second[e] = second[e] * (3 + static_cast<int>(e) % 5) / 4;
    SplitSolver solver =
        SplitSolver::make(plan.placement.layer(layer), loads.num_experts(), topology).value();
    Loads assignments(static_cast<std::size_t>(topology.num_slots()));
    const std::size_t before = num_allocations();
    EXPECT_TRUE(solver.solve(first, assignments));
    EXPECT_TRUE(solver.solve_from(assignments, second, assignments));
    static_cast<void>(solver.optimum(loads.layer(layer)));
    count += num_allocations() - before;
  }
  return count;
}

TEST(SplitSolver, AllocatesNothing) {
  EXPECT_EQ(allocations_of(zipf_loads({4, 256}, 1.0, 3), Topology::make_uniform(32, 4, 352).value()), 0U);
  EXPECT_EQ(allocations_of(outlier_loads({4, 256}, 0.6, 3), Topology::make_uniform(144, 18, 432).value()),
            0U);
}

TEST(SplitSolver, AllocatesNothingOnRecordedLoads) {
  const auto loads = recorded_file("deepseek-v3_prefill_in1024.json");
  if (!loads) GTEST_SKIP() << "TRIMTAB_LOADS_DIR names no folder with that file";
  EXPECT_EQ(allocations_of(*loads, Topology::make_uniform(32, 4, 288).value()), 0U);
}

}  // namespace
}  // namespace trimtab::test
