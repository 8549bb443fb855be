// SPDX-License-Identifier: Apache-2.0
#include "app/slot_sweep.hpp"

#include "app/commands.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

namespace trimtab {
namespace {

/// A number, and behind it `end`.
std::optional<std::int32_t> take_number(std::string_view& text, char end) {
  std::int32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (end == '\0') return text.empty() ? std::optional(value) : std::nullopt;
  if (!text.starts_with(end)) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

}  // namespace

SlotRange checked_slot_range(const std::string& text) {
  constexpr std::int32_t most_slots = 1 << 20;
  constexpr std::int32_t most_points = 1000;
  std::string_view rest = text;
  const auto first = take_number(rest, ':');
  const auto last = first ? take_number(rest, ':') : std::nullopt;
  const auto step = last ? take_number(rest, '\0') : std::nullopt;
  if (!step) usage_error("--sweep-slots", fmt::format("'{}' is not FIRST:LAST:STEP", text));
  if (*first < 1 || *last < *first || *last > most_slots || *step < 1) {
    usage_error("--sweep-slots",
                fmt::format("'{}': needs 1 <= FIRST <= LAST <= {} and STEP >= 1", text, most_slots));
  }
  if ((*last - *first) / *step >= most_points) {
    usage_error("--sweep-slots", fmt::format("'{}': {} numbers of slots > {}", text,
                                             (*last - *first) / *step + 1, most_points));
  }
  return {*first, *last, *step};
}

}  // namespace trimtab
