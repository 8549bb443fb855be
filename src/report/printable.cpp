// SPDX-License-Identifier: Apache-2.0
#include "report/printable.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace trimtab {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

/// One character, or a byte that begins none.
struct Character {
  std::string_view bytes;
  std::uint32_t code = 0;
  bool is_valid = false;
};

std::size_t length_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/// Neither longer than need be, nor half of a pair, nor beyond the last.
bool is_code(std::uint32_t code, std::size_t length) {
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  return code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

Character next_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = length_by(first);
  if (length == 0 || length > text.size()) return {text.substr(0, 1)};
  std::uint32_t code = length == 1 ? first : first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0U) != 0x80U) return {text.substr(0, 1)};
    code = code << 6 | (byte & 0x3fU);
  }
  if (!is_code(code, length)) return {text.substr(0, 1)};
  return {text.substr(0, length), code, true};
}

/// Roughly: from Hangul's first letters on, and the forms of full width.
std::size_t columns_of(std::uint32_t code) {
  const bool is_wide = (code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
                       (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00) ||
                       (code >= 0xfe30 && code < 0xfe70) || (code >= 0xff00 && code < 0xff61) ||
                       code >= 0x1f300;
  return is_wide ? 2 : 1;
}

/// Of the second set of controls too.
bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

}  // namespace

std::string as_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Character next = next_character(bytes);
    out += next.is_valid ? next.bytes : replacement;
    bytes.remove_prefix(next.bytes.size());
  }
  return out;
}

std::string last_columns(std::string_view text, std::size_t columns) {
  std::vector<Character> line;
  while (!text.empty()) {
    Character next = next_character(text);
    text.remove_prefix(next.bytes.size());
    if (!next.is_valid) next = {replacement, 0xfffd, true};
    if (is_control(next.code)) next = {" ", ' ', true};
    if (next.code != ' ' || line.empty() || line.back().code != ' ') line.push_back(next);
  }
  std::size_t first = line.size();
  while (first > 0 && columns >= columns_of(line[first - 1].code)) columns -= columns_of(line[--first].code);
  std::string out;
  for (; first < line.size(); ++first) out += line[first].bytes;
  return out;
}

std::string bars(std::span<const double> values) {
  constexpr std::array<std::string_view, 8> steps{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double largest = values.empty() ? 0.0 : *std::ranges::max_element(values);
  std::string out;
  for (const double value : values) {
    const double part = largest > 0.0 ? value / largest : 0.0;
    out += steps[static_cast<std::size_t>(std::lround(part * static_cast<double>(steps.size() - 1)))];
  }
  return out;
}

}  // namespace trimtab
