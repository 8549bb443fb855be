// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/commands.hpp"
#include "app/run_options.hpp"

namespace trimtab {

// `trimtab run` by transport: starts or joins the ranks, serves, reports.

[[nodiscard]] Outcome run_inproc(RunOptions options);
[[nodiscard]] Outcome run_mpi(const RunOptions& options);
[[nodiscard]] Outcome run_ucx(const RunOptions& options);

}  // namespace trimtab
