// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>

#include <cstdio>
#include <cstdlib>

namespace trimtab {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "trimtab: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace trimtab
