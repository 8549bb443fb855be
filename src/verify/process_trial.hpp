// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"
#include "verify/trial_report.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/transport.hpp>

namespace trimtab::verify {

/// How long a process waits for another: longer than any wait of the protocol, whose deadline is given.
[[nodiscard]] Clock::duration process_patience(Clock::duration deadline) noexcept;

/// Plays one case with this process as one of its ranks, on a clock that runs by itself. Each rank checks its
/// own slots; what only shows over all ranks is exchanged in every forward and after every program. Jumps of
/// time are left out; a pause is one. Where time is real, a rank may be late without a fault: then rollbacks
/// and doubts are no violations.
///
/// Collective over `root`, which must have as many ranks as the case.
/// @return the report of all ranks, the same everywhere; `timeout` when a rank is not heard of in time: the
/// channel is unusable then.
[[nodiscard]] Result<TrialReport> run_process_trial(const Case& drawn, Transport& root, const Clock& clock);

}  // namespace trimtab::verify
