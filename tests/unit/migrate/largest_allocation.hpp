// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace trimtab::test {

/// The largest piece of memory that operator new has given since the last call. Replaces the global operators
/// of the test program, so that "keeps payloads nowhere else" can be checked.
[[nodiscard]] std::size_t take_largest_allocation() noexcept;

}  // namespace trimtab::test
