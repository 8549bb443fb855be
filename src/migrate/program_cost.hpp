// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/program.hpp>

#include <span>

namespace trimtab {

/// What `steps`, built from `input`, cost, beside what any steps from one placement to the other must cost.
[[nodiscard]] ProgramCost cost_of(std::span<const Step> steps, const ProgramInput& input);

}  // namespace trimtab
