// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/slot_sweep.hpp>

#include <string>

namespace trimtab {

/// What `--sweep-slots FIRST:LAST:STEP` means. Usage error when it is not of that form or names no number of
/// slots.
[[nodiscard]] SlotRange checked_slot_range(const std::string& text);

}  // namespace trimtab
