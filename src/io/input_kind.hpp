// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"

#include <cstdint>

namespace trimtab {

/// What a file says it is, by its key.
enum class InputKind : std::uint8_t { loads, placement };

/// `placement` for a file with "physical_to_logical_map" and no "logical_count"; anything else is `loads`,
/// whose reader then tells what is wrong with it.
[[nodiscard]] InputKind find_input_kind(const JsonText& text);

}  // namespace trimtab
