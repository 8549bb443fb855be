// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace trimtab::test {

/// Calls of operator new since the start of the program. Replaces the global operator new of the test
/// program, so that "allocates nothing" can be checked.
[[nodiscard]] std::size_t num_allocations() noexcept;

}  // namespace trimtab::test
