// SPDX-License-Identifier: Apache-2.0
#include "app/run_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

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

constexpr std::pair<std::string_view, RankFaultKind> rank_faults[]{
    {"kill", RankFaultKind::kill}, {"stop", RankFaultKind::stop}, {"cut", RankFaultKind::cut}};

std::optional<RankFaultKind> kind_of(std::string_view spec) {
  const std::string_view name = split_at_colons(spec)[0];
  for (const auto& [known, kind] : rank_faults) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

Result<moe::TransferFault> parse_fault(std::string_view spec, Clock::duration deadline) {
  const auto refuse = [&](std::string_view why) {
    return failure(Errc::invalid_argument, fmt::format("'{}': {}", spec, why));
  };
  const std::vector<std::string_view> parts = split_at_colons(spec);
  const auto action = std::ranges::find(actions, parts[0], [](FaultAction a) { return to_string(a); });
  if (action == std::end(actions))
    return refuse(fmt::format("'{}' is not corrupt, drop, delay, kill, stop or cut", parts[0]));
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

std::string_view to_string(RankFaultKind kind) noexcept {
  return std::ranges::find(rank_faults, kind, &std::pair<std::string_view, RankFaultKind>::second)->first;
}

Result<std::optional<NamedRankFault>> parse_rank_fault(std::span<const std::string> specs) {
  std::optional<NamedRankFault> fault;
  for (const std::string& spec : specs) {
    const std::optional<RankFaultKind> kind = kind_of(spec);
    if (!kind) continue;
    const std::vector<std::string_view> parts = split_at_colons(spec);
    const std::optional<std::uint64_t> rank = parts.size() == 2 ? whole_number(parts[1]) : std::nullopt;
    constexpr std::uint64_t most = 1023;
    if (!rank || *rank > most)
      return failure(Errc::invalid_argument, fmt::format("'{0}': a {1} is written {1}:RANK", spec, parts[0]));
    if (fault) return failure(Errc::invalid_argument, fmt::format("'{}': one rank may be struck", spec));
    fault = {*kind, Rank{static_cast<std::int32_t>(*rank)}};
  }
  return fault;
}

Result<std::vector<moe::TransferFault>> parse_faults(std::span<const std::string> specs,
                                                     Clock::duration deadline) {
  std::vector<moe::TransferFault> faults;
  for (const std::string& spec : specs) {
    if (kind_of(spec)) continue;
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
