// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab {

/// What a file says it is, by its key.
enum class InputKind : std::uint8_t { loads, placement };

/// `placement` for a file with "physical_to_logical_map" and no "logical_count"; anything else is `loads`,
/// whose reader then tells what is wrong with it.
[[nodiscard]] InputKind find_input_kind(const JsonText& text);

/// Whether bytes begin as a safetensors file does, which no JSON text can.
[[nodiscard]] bool begins_as_safetensors(std::string_view bytes);

/// Whether the file does, a trace for example. False when it cannot be opened and for anything that cannot be
/// read twice, such as a pipe or standard input.
[[nodiscard]] bool is_safetensors(const std::string& path);

}  // namespace trimtab
