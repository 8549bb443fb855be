// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"
#include "verify/shared_case.hpp"

#include <trimtab/transport/bootstrap.hpp>

namespace trimtab::verify {

/// What a case becomes where time is real: heartbeats and stops by its deadline, calls of some microseconds.
void set_real_time(Case& drawn);

/// Plays one rank of a case in this process, over ucx: with deaths, which it brings upon itself at their
/// moment, or without. Tells `shared` all it finds. To be called in a process of its own.
void run_process_rank(const Case& drawn, const Bootstrap& bootstrap, SharedCase& shared);

}  // namespace trimtab::verify
