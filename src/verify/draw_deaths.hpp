// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"

#include <string>

namespace trimtab::verify {

/// Gives about every second case deaths, if the options have any, and what ranks need to survive them; every
/// case where they have nothing else. Of its other faults those of sent messages stay. What is drawn before
/// stays as it was, but for the placements of cases that have every expert on two ranks.
void draw_deaths(Case& drawn, const CaseOptions& options);

/// "rank 2 is killed at its 5th change of state".
[[nodiscard]] std::string describe_death(const CaseFault& fault);

/// Whether messages between two ranks are lost once `cut` has struck.
[[nodiscard]] bool severs(const CaseFault& cut, Rank a, Rank b);
/// The same for the cut of the case, if it has one and that has struck.
[[nodiscard]] bool is_cut(const Case& drawn, bool has_struck, Rank a, Rank b);

}  // namespace trimtab::verify
