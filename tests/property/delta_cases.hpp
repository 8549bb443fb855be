// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/delta.hpp>

#include "plan_cases.hpp"

namespace trimtab::test {

/// One call of plan_delta.
struct DrawnDelta {
  PlanCase plan;
  Placement current;
  DeltaOptions delta;
};

/// Any placement, with vacant slots, second copies, experts on dead ranks only and groups apart; sometimes
/// made for other ranks. Only inside a rapidcheck property. The plan may be infeasible.
[[nodiscard]] DrawnDelta draw_delta(const CaseLimits& limits = {});

}  // namespace trimtab::test
