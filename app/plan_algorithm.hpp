// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/layer_range.hpp"

#include <trimtab/plan/compat.hpp>

#include <map>
#include <optional>
#include <string>

namespace trimtab {

/// Who plans: another system's planner, or our own.
using Algorithm = std::optional<CompatPlanner>;

/// What `--algorithm` takes: "native", "deepseek", "trtllm", "vllm".
[[nodiscard]] const std::map<std::string, Algorithm>& algorithms();

/// plan_like over the rows of `range`, all-zero ones included; the others keep the identity, as dense rows
/// do. Usage error when `planner` cannot plan for such ranks, groups or options.
[[nodiscard]] Result<Plan> plan_rows_like(CompatPlanner planner, const LoadMatrix& loads, LayerRange range,
                                          const Topology& topology, const PlanOptions& options,
                                          Executor& executor);

}  // namespace trimtab
