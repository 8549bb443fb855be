// SPDX-License-Identifier: Apache-2.0
#include "io/input_kind.hpp"

#include "io/top_level.hpp"

namespace trimtab {

InputKind find_input_kind(const JsonText& text) {
  const bool is_placement =
      !has_top_level_key(text, "logical_count") && has_top_level_key(text, "physical_to_logical_map");
  return is_placement ? InputKind::placement : InputKind::loads;
}

}  // namespace trimtab
