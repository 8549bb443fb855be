// SPDX-License-Identifier: Apache-2.0
//
// How few moves it takes at the size of a real service. Figures: docs/design/0007-delta-plans.md. On
// generated loads always; on recorded ones where TRIMTAB_LOADS_DIR names a folder of them.
#include <gtest/gtest.h>

#include "support/delta_checks.hpp"
#include "support/drifting_loads.hpp"
#include "support/generated_loads.hpp"
#include "support/placements.hpp"
#include "support/plan_checks.hpp"
#include "support/recorded_loads.hpp"

namespace trimtab::test {
namespace {

constexpr PlanOptions anywhere{.locality = Locality::none};

DeltaOptions at_most(std::int32_t moves) {
  return {.max_moves = moves, .move_budget_bytes = {}, .within = {}, .from = {}};
}
DeltaOptions within(double share) {
  return {.max_moves = {}, .move_budget_bytes = {}, .within = share, .from = {}};
}

/// Planned for `before`, then under `after`.
DeltaPlan replan(const LoadMatrix& before, const LoadMatrix& after, const Topology& topology,
                 const PlanOptions& options, const DeltaOptions& delta) {
  const Placement current = plan_of(before, topology, options).placement;
  DeltaPlan made = delta_of({after, current, topology, options, delta});
  EXPECT_EQ(broken_delta(made, {after, current, topology, options, delta}), "");
  return made;
}

void expect_much_from_few_moves(const LoadMatrix& before, const LoadMatrix& after) {
  const Topology topology = uniform(32, 4, 288);
  EXPECT_LE(mean_imbalance(replan(before, after, topology, anywhere, at_most(32))), 1.03);
  EXPECT_LE(mean_imbalance(replan(before, after, topology, anywhere, at_most(64))), 1.008);
}

TEST(DeltaQuality, NeedsFewMovesWhenTheWorkloadIsAnother) {
  expect_much_from_few_moves(outlier_loads({16, 256}, 0.6, 1), outlier_loads({16, 256}, 0.6, 2));
}

TEST(DeltaQuality, NeedsFewMovesFromRecordedPrefillToRecordedDecode) {
  const auto prefill = recorded_file("deepseek-v3_prefill_in1024.json");
  const auto decode = recorded_file("deepseek-v3_decode_in1000out1000.json");
  if (!prefill || !decode) GTEST_SKIP() << "TRIMTAB_LOADS_DIR names no folder with deepseek-v3_* files";
  expect_much_from_few_moves(*prefill, *decode);
}

TEST(DeltaQuality, MovesLittleUnderDrift) {
  const LoadMatrix loads = lognormal_loads({58, 256}, 0.5, 1);
  const Topology topology = uniform(32, 4, 288);
  EXPECT_LE(share_moved(replan(loads, drifted_loads(loads, 0.05, 2), topology, anywhere, within(0.01))),
            0.05);
  EXPECT_LE(share_moved(replan(loads, drifted_loads(loads, 0.2, 2), topology, anywhere, within(0.01))), 0.09);
}

TEST(DeltaQuality, DoesNotStickWithTwoSlotsPerRank) {
  const LoadMatrix loads = lognormal_loads({8, 256}, 0.5, 1);
  const Topology topology = uniform(144, 1, 288);
  // Relabelling the full re-plan leaves about half of the slots to be moved.
  EXPECT_LE(share_moved(replan(loads, drifted_loads(loads, 0.05, 2), topology, anywhere, within(0.01))),
            0.35);
}

// Measured with plans that never let a group change its node: 1.040 became 1.058 in twenty windows.
TEST(DeltaQuality, DoesNotDriftAwayOverManyWindows) {
  const Topology topology = uniform(32, 4, 288);
  const PlanOptions by_group{.num_groups = 8};
  WanderingLoads windows(lognormal_loads({8, 256}, 0.5, 1), 0.97, 0.2, 7);
  Placement current = plan_of(windows.next(), topology, by_group).placement;
  double first = 0.0;
  double last = 0.0;
  for (int window = 0; window < 20; ++window) {
    const LoadMatrix loads = windows.next();
    const DeltaOptions delta = within(0.01);
    DeltaPlan made = delta_of({loads, current, topology, by_group, delta});
    ASSERT_EQ(broken_delta(made, {loads, current, topology, by_group, delta}), "") << window;
    double full = 0.0;
    for (const LayerDelta& layer : made.layers) full += layer.imbalance_full / 8.0;
    (window < 10 ? first : last) += mean_imbalance(made) / full / 10.0;
    current = std::move(made.plan.placement);
  }
  EXPECT_LE(first, 1.01);
  EXPECT_LE(last, 1.01);
}

}  // namespace
}  // namespace trimtab::test
