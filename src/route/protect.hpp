// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace trimtab {

/// Shows in `hazard` what `current` points to and returns it, once it is certain that whoever replaces it
/// will see that it is shown. Generic in the atomics, so that a test can play a publication between the two
/// looks: the gap is too narrow to be hit by chance.
template <class Current, class Hazard>
auto protect(const Current& current, Hazard& hazard) noexcept {
  auto shown = current.load(std::memory_order_relaxed);
  for (;;) {
    // Both sequentially consistent: either this look sees the publisher's store, or the publisher's later
    // look at the hazards sees ours.
    hazard.store(shown, std::memory_order_seq_cst);
    const auto now = current.load(std::memory_order_seq_cst);
    if (now == shown) return shown;
    shown = now;
  }
}

}  // namespace trimtab
