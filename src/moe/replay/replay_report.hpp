// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trimtab::moe {

/// What replays did since the start.
struct ReplayReport {
  std::vector<std::int64_t> sizes;  ///< Tokens of each recorded forward, ascending.
  std::int64_t replays = 0;
  std::int64_t tokens = 0;       ///< That counted.
  std::int64_t padded_rows = 0;  ///< Beside them.
  std::int64_t tables = 0;       ///< Written into the buffer.
};

}  // namespace trimtab::moe
