// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trimtab {

/// Bytes as UTF-8: what is none becomes U+FFFD, so a character that was cut off too.
[[nodiscard]] std::string as_utf8(std::string_view bytes);

/// The last columns of a text on one line: line breaks, tabs and what a terminal would obey become spaces,
/// many spaces one. A character of East Asia takes two columns.
[[nodiscard]] std::string last_columns(std::string_view text, std::size_t columns);

/// A bar of one character for each value, by its part of the largest.
[[nodiscard]] std::string bars(std::span<const double> values);

}  // namespace trimtab
