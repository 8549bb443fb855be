// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/exit_status.hpp"

#include <trimtab/core/result.hpp>

#include <CLI/CLI.hpp>

namespace trimtab {

/// What a verb came to: a status, or the error that `main` prints and turns into one.
using Outcome = Result<ExitStatus>;

// Each adds one verb. The verb runs inside `app.parse`, sets `outcome`, and reports a wrong option as the
// parser does: by `usage_error`. `outcome` must outlive `app`.
CLI::App* add_run_command(CLI::App& app, Outcome& outcome);
CLI::App* add_plan_command(CLI::App& app, Outcome& outcome);
CLI::App* add_split_command(CLI::App& app, Outcome& outcome);
CLI::App* add_diff_command(CLI::App& app, Outcome& outcome);
CLI::App* add_inspect_command(CLI::App& app, Outcome& outcome);
CLI::App* add_generate_command(CLI::App& app, Outcome& outcome);
CLI::App* add_verify_command(CLI::App& app, Outcome& outcome);
CLI::App* add_doctor_command(CLI::App& app, Outcome& outcome);

/// Whole numbers from `low` to `high`; its range is told by the error, not by the help, where it is noise.
[[nodiscard]] inline CLI::Validator in_range(int low, int high) {
  return CLI::Range(low, high).description("");
}

/// Ends the verb with exit status 2. To be called only while `app.parse` runs, which catches it.
[[noreturn]] inline void usage_error(const std::string& option, const std::string& problem) {
  throw CLI::ValidationError(option, problem);
}
[[noreturn]] inline void usage_error(const std::string& problem) { throw CLI::ValidationError(problem); }

}  // namespace trimtab
