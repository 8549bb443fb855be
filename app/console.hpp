// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"

#include <string>
#include <string_view>

namespace trimtab {

/// True when standard error is a terminal, so that progress may be drawn there.
[[nodiscard]] bool is_talk_on_terminal();

/// True on a terminal, unless NO_COLOR is set or TERM is "dumb".
[[nodiscard]] bool may_color_talk();

/// One line on standard error, whatever `message` holds.
void print_error(std::string_view who, std::string_view message);

/// Text to standard output (`data`) or standard error (`talk`).
void print_data(std::string_view text);
void print_talk(std::string_view text);

/// Draws a bar on standard error while a large file is read, if that is a terminal; otherwise does nothing.
/// The line is wiped when the file is complete.
[[nodiscard]] ReadProgress read_progress_bar(const std::string& path);

}  // namespace trimtab
