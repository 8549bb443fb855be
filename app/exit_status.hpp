// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <string>

namespace trimtab {

/// What the program tells the shell. Stable.
enum class ExitStatus : int {
  ok = 0,
  check_failed = 1,
  usage = 2,
  bad_input = 3,
  infeasible = 4,
  rolled_back = 5,
  interrupted = 130,
};

/// The one table from kinds of failure to exit statuses.
[[nodiscard]] ExitStatus exit_status_of(Errc code) noexcept;

/// All statuses with their meaning, a line each, as `--help` shows them.
[[nodiscard]] std::string exit_status_help();

}  // namespace trimtab
