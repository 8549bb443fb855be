// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/delta_options.hpp"

#include <trimtab/plan/planner.hpp>

#include <string>

namespace trimtab {

/// What `plan` was given besides `--from`.
struct DeltaJob {
  const std::string& loads_path;
  const LoadMatrix& loads;
  const Topology& topology;
  const PlanOptions& options;
  int threads;
  const std::string& output;  ///< Where the placement goes; "-" is standard output.
  const std::string& json;    ///< Where the document goes; may be empty.
};

/// Plans from the placement in use and writes what was asked for. Precondition: `args.is_given()`.
[[nodiscard]] Status plan_from(const DeltaArguments& args, const DeltaJob& job);

}  // namespace trimtab
