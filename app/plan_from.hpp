// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/delta_options.hpp"
#include "app/plan_output.hpp"

#include <trimtab/core/executor.hpp>
#include <trimtab/plan/planner.hpp>

#include <cstdint>
#include <optional>

namespace trimtab {

/// What `plan` was given besides `--from`.
struct DeltaJob {
  const LoadMatrix& loads;
  const Topology& topology;
  const PlanOptions& options;
  std::optional<std::uint64_t> expert_bytes;
};

/// Plans from the placement in use. Precondition: `args.is_given()`. The error names the placement.
[[nodiscard]] Result<PlanOutput> plan_from(const DeltaArguments& args, const DeltaJob& job,
                                           Executor& executor);

}  // namespace trimtab
