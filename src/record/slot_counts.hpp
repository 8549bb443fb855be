// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/record/recorder.hpp>

namespace trimtab {

/// A window in which nothing was counted.
[[nodiscard]] SlotCounts make_zero(std::int32_t num_layers, std::int32_t num_slots);

/// Adds `from` to `to`, of the same shape, and leaves `from` all zero. Only layers that expect something are
/// looked at, so a forward that ran few layers costs little.
void drain_into(SlotCounts& to, SlotCounts& from);

}  // namespace trimtab
