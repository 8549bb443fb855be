// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mutant/mutant.hpp"
#include "verify/case.hpp"
#include "verify/trial_report.hpp"

#include <optional>

namespace trimtab::verify {

/// Plays one case: all its ranks over the inproc transport, driven by this thread on a virtual clock, so that
/// the same case always goes the same way.
///
/// After the programs of the case, with their faults, comes one without, which must commit; but not when a
/// rank ended in doubt. @return errors of making the ranks, which are no violations.
[[nodiscard]] Result<TrialReport> run_trial(const Case& drawn, std::optional<Mutant> mutant = std::nullopt,
                                            const Story& story = {});

}  // namespace trimtab::verify
