// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/delta_options.hpp"

#include <trimtab/core/executor.hpp>
#include <trimtab/plan/planner.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab {

/// What `plan` was given besides `--from`.
struct DeltaJob {
  const LoadMatrix& loads;
  const Topology& topology;
  const PlanOptions& options;
  std::optional<std::uint64_t> expert_bytes;
};

/// What the command writes.
struct DeltaOutput {
  Placement placement;
  nlohmann::ordered_json document;
  std::string text;
};

/// Plans from the placement in use. Precondition: `args.is_given()`. The error names the placement.
[[nodiscard]] Result<DeltaOutput> plan_from(const DeltaArguments& args, const DeltaJob& job,
                                            Executor& executor);

}  // namespace trimtab
