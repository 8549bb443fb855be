// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trimtab {

/// Prints one line and aborts. Called by TRIMTAB_ASSERT only.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace trimtab

/// Stops the process when an internal invariant is broken. Never reachable from user input. On in
/// every build unless TRIMTAB_DISABLE_ASSERTS is defined; keep it out of per-token loops.
#ifdef TRIMTAB_DISABLE_ASSERTS
#define TRIMTAB_ASSERT(condition) static_cast<void>(0)
#else
#define TRIMTAB_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::trimtab::assertion_failed(#condition, __FILE__, __LINE__))
#endif
