// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/delta.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "delta_cases.hpp"
#include "support/delta_checks.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

DeltaCase given(const DrawnDelta& drawn) {
  return {drawn.plan.loads, drawn.current, drawn.plan.topology, drawn.plan.options, drawn.delta};
}

Result<DeltaPlan> attempt(const DrawnDelta& drawn, Executor& executor) {
  return plan_delta(drawn.plan.loads, drawn.current, drawn.plan.topology, drawn.plan.options, drawn.delta,
                    executor);
}

RC_GTEST_PROP(PlanDelta, KeepsItsPromisesOrSaysInfeasible, ()) {
  const DrawnDelta drawn = draw_delta();
  SerialExecutor executor;
  const Result<DeltaPlan> made = attempt(drawn, executor);
  const bool is_limited = drawn.delta.max_moves || drawn.delta.move_budget_bytes;
  RC_CLASSIFY(made.has_value(), "planned");
  RC_CLASSIFY(made.has_value() && is_limited, "planned within limits");
  RC_CLASSIFY(made.has_value() && is_by_group(drawn.plan), "planned by group");
  if (made) {
    RC_ASSERT(broken_delta(*made, given(drawn)) == "");
  } else {
    RC_ASSERT(made.error().code == Errc::infeasible);
    RC_ASSERT(is_limited || !is_feasible(drawn.plan));
  }
}

RC_GTEST_PROP(PlanDelta, GivesTheSameBytesOnAnyExecutor, ()) {
  const DrawnDelta drawn = draw_delta();
  SerialExecutor executor;
  const Result<DeltaPlan> serial = attempt(drawn, executor);
  RC_PRE(serial.has_value());
  for (std::size_t num_threads : {2U, 7U}) {
    ThreadedExecutor threads(num_threads);
    const DeltaPlan threaded = attempt(drawn, threads).value();
    RC_ASSERT(threaded.plan.placement == serial->plan.placement);
    for (std::size_t i = 0; i < threaded.layers.size(); ++i) {
      RC_ASSERT(threaded.layers[i].curve == serial->layers[i].curve);
      RC_ASSERT(threaded.layers[i].counts == serial->layers[i].counts);
    }
  }
}

// ROCm/ATOM PR#1210: nothing to gain, nothing moved.
RC_GTEST_PROP(PlanDelta, MovesNothingTheSecondTime, ()) {
  DrawnDelta drawn = draw_delta();
  SerialExecutor executor;
  const Result<DeltaPlan> first = attempt(drawn, executor);
  RC_PRE(first.has_value());
  drawn.current = first->plan.placement;
  drawn.delta.from.reset();
  drawn.delta.max_moves.reset();
  drawn.delta.move_budget_bytes.reset();
  RC_PRE(is_feasible(drawn.plan));
  const DeltaPlan second = attempt(drawn, executor).value();
  for (std::size_t i = 0; i < second.layers.size(); ++i) {
    const double enough = first->layers[i].imbalance_full * (1.0 + drawn.delta.within.value_or(0.0));
    if (first->plan.layers[i].imbalance <= enough) RC_ASSERT(second.layers[i].counts.moves == 0);
  }
}

}  // namespace
}  // namespace trimtab::test
