// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mutant/mutant.hpp"
#include "verify/case.hpp"
#include "verify/trial_report.hpp"

#include <optional>

namespace trimtab::verify {

/// Plays a case with deaths: its ranks over the inproc transport, each with a heartbeat, driven by this
/// thread on a virtual clock. After the faults the ranks that are left must agree, and all others must have
/// stopped.
/// @return errors of making the ranks, which are no violations.
[[nodiscard]] Result<TrialReport> run_view_trial(const Case& drawn, std::optional<Mutant> mutant,
                                                 const Story& story);

}  // namespace trimtab::verify
