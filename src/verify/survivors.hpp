// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"

#include <vector>

namespace trimtab::verify {

/// What must become of ranks, as far as the faults of a case that struck leave no doubt about it.
struct Fate {
  std::vector<Rank> serve;  ///< They go on.
  std::vector<Rank> stop;   ///< They do not.
};

/// Knows nothing where two deaths struck, or control messages were lost or late beside a death. `has_struck`
/// is by fault.
[[nodiscard]] Fate expected_fate(const Case& drawn, const std::vector<bool>& has_struck);

}  // namespace trimtab::verify
