// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// Where a JSON text stops.
struct JsonEnd {
  bool is_complete = false;          ///< The first value is closed; `rest` bytes after it are something else.
  std::size_t end_bytes = 0;         ///< Length up to the end of that value, or of the whole text.
  std::string key;                   ///< The last key of the outermost object.
  std::vector<std::size_t> indices;  ///< Position in the lists that are still open, outermost first.
  std::size_t deepest = 0;           ///< Most lists open at once under `key`.
};

/// Finds out where a truncated text stops, which the parser cannot tell. Linear in the text; never fails.
[[nodiscard]] JsonEnd find_json_end(std::string_view text);

}  // namespace trimtab
