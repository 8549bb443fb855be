// SPDX-License-Identifier: Apache-2.0
#include "app/run_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

namespace trimtab {
namespace {

constexpr FaultAction actions[]{FaultAction::corrupt, FaultAction::drop, FaultAction::delay};

/// An hour.
constexpr std::uint64_t max_delay_ms = 3'600'000;

std::vector<std::string_view> split_at_colons(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_kill(std::string_view spec) { return split_at_colons(spec)[0] == "kill"; }

Result<moe::TransferFault> parse_fault(std::string_view spec, Clock::duration deadline) {
  const auto refuse = [&](std::string_view why) {
    return failure(Errc::invalid_argument, fmt::format("'{}': {}", spec, why));
  };
  const std::vector<std::string_view> parts = split_at_colons(spec);
  const auto action = std::ranges::find(actions, parts[0], [](FaultAction a) { return to_string(a); });
  if (action == std::end(actions))
    return refuse(fmt::format("'{}' is not corrupt, drop, delay or kill", parts[0]));
  const bool has_time = *action == FaultAction::delay && parts.size() == 3;
  if (parts.size() != 2 && !has_time) {
    return refuse(fmt::format("a {0} is written {0}:N{1}", parts[0],
                              *action == FaultAction::delay ? " or delay:N:MS" : ""));
  }
  const std::optional<std::uint64_t> at = whole_number(parts[1]);
  if (!at) return refuse(fmt::format("'{}' is not the number of a transfer, 0 or more", parts[1]));
  moe::TransferFault fault{*action, *at, deadline / 2};
  if (!has_time) return fault;
  const std::optional<std::uint64_t> hold = whole_number(parts[2]);
  if (!hold || *hold < 1 || *hold > max_delay_ms)
    return refuse(fmt::format("'{}' is not 1 to {} milliseconds", parts[2], max_delay_ms));
  fault.hold = std::chrono::milliseconds(*hold);
  return fault;
}

}  // namespace

Result<std::optional<Rank>> parse_kill(std::span<const std::string> specs) {
  std::optional<Rank> killed;
  for (const std::string& spec : specs) {
    if (!is_kill(spec)) continue;
    const std::vector<std::string_view> parts = split_at_colons(spec);
    const std::optional<std::uint64_t> rank = parts.size() == 2 ? whole_number(parts[1]) : std::nullopt;
    constexpr std::uint64_t most = 1023;
    if (!rank || *rank > most)
      return failure(Errc::invalid_argument, fmt::format("'{}': a kill is written kill:RANK", spec));
    if (killed) return failure(Errc::invalid_argument, fmt::format("'{}': one rank may be killed", spec));
    killed = Rank{static_cast<std::int32_t>(*rank)};
  }
  return killed;
}

Result<std::vector<moe::TransferFault>> parse_faults(std::span<const std::string> specs,
                                                     Clock::duration deadline) {
  std::vector<moe::TransferFault> faults;
  for (const std::string& spec : specs) {
    if (is_kill(spec)) continue;
    Result<moe::TransferFault> fault = parse_fault(spec, deadline);
    if (!fault) return failure(std::move(fault));
    if (std::ranges::find(faults, fault->at, &moe::TransferFault::at) != faults.end()) {
      return failure(Errc::invalid_argument,
                     fmt::format("'{}': transfer {} has another fault already", spec, fault->at));
    }
    faults.push_back(*fault);
  }
  return faults;
}

}  // namespace trimtab
