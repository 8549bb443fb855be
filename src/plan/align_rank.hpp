// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <span>

namespace trimtab {

/// `row` holds what comes to one rank and ends in the order that leaves most slots as they are in `current`.
/// A slot that is vacant before and after counts as left. Slots that only one of the two has are changed.
void align_rank(std::span<const ExpertId> current, std::span<ExpertId> row);

}  // namespace trimtab
