// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/dispatch_mode.hpp>

#include <fmt/format.h>

#include <array>

namespace trimtab {
namespace {

/// By the number of the mode.
constexpr std::array<std::string_view, 4> names{"nearest", "rank-invariant", "quota", "exact-batch"};

}  // namespace

std::string_view to_string(DispatchMode mode) noexcept { return names[static_cast<std::size_t>(mode)]; }

Result<DispatchMode> parse_dispatch_mode(std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<DispatchMode>(i);
  }
  return failure(
      Errc::invalid_argument,
      fmt::format("dispatch mode \"{}\" is not nearest, rank-invariant, quota or exact-batch", text));
}

}  // namespace trimtab
