// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"

#include <simdjson.h>

#include <functional>
#include <string>
#include <string_view>

namespace trimtab {

/// Reads the value of the one key a file format is made of.
using ReadValue = std::function<Status(simdjson::ondemand::value)>;

/// Walks the outermost object of `text` once and hands the value of `key` to `read`; other keys are skipped.
/// @return `invalid_argument` when the text is not an object, is cut off, continues after its end, or has the
/// key
///         not once; or what `read` returned. Every message begins with the path.
[[nodiscard]] Status read_top_level(const JsonText& text, std::string_view key, const ReadValue& read);

/// Whether the outermost object has `key`. False as well for text that is not JSON.
[[nodiscard]] bool has_top_level_key(const JsonText& text, std::string_view key);

/// A token as it may stand in a message: one line, printable, not long.
[[nodiscard]] std::string quote_token(std::string_view token);

}  // namespace trimtab
