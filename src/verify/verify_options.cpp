// SPDX-License-Identifier: Apache-2.0
#include "verify/verify_options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::verify {
namespace {

constexpr std::string_view layout_names[]{"dense", "strided", "nz"};
constexpr std::string_view fault_names[]{"drop",  "corrupt", "duplicate", "delay", "reorder", "fail",
                                         "pause", "jump",    "kill",      "stop",  "cut"};

Result<FaultKind> fault_kind_named(std::string_view name) {
  const auto* const found = std::ranges::find(fault_names, name);
  if (found != std::end(fault_names)) return static_cast<FaultKind>(found - std::begin(fault_names));
  return failure(Errc::invalid_argument,
                 fmt::format("'{}' is not all, none or any of {}", name, fmt::join(fault_names, ", ")));
}

}  // namespace

std::string_view to_string(FaultKind kind) noexcept { return fault_names[static_cast<std::size_t>(kind)]; }

FaultKinds without_deaths(FaultKinds kinds) {
  std::erase_if(kinds, is_death);
  return kinds;
}

Result<FaultKinds> fault_kinds_named(std::string_view names) {
  if (names == "all") return FaultKinds(std::begin(all_fault_kinds), std::end(all_fault_kinds));
  if (names == "none") return FaultKinds();
  FaultKinds kinds;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = names.find(',');
    is_last = comma == std::string_view::npos;
    Result<FaultKind> kind = fault_kind_named(names.substr(0, comma));
    if (!kind) return failure(std::move(kind));
    kinds.insert(*kind);
    if (!is_last) names.remove_prefix(comma + 1);
  }
  return kinds;
}

std::string to_string(const FaultKinds& kinds) {
  if (kinds.empty()) return "none";
  if (kinds.size() == std::size(all_fault_kinds)) return "all";
  std::string names;
  for (FaultKind kind : kinds) names += fmt::format("{}{}", names.empty() ? "" : ",", to_string(kind));
  return names;
}

std::string_view to_string(LayoutFamily family) noexcept {
  return layout_names[static_cast<std::size_t>(family)];
}

std::optional<LayoutFamily> layout_family_named(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(layout_names, name);
  if (found == std::end(layout_names)) return std::nullopt;
  return static_cast<LayoutFamily>(found - std::begin(layout_names));
}

std::string replay_arguments(std::uint64_t seed, const CaseOptions& options) {
  const CaseOptions usual;
  std::string text = fmt::format("--seed {} --campaign 1", seed);
  if (options.ranks) text += fmt::format(" --ranks {}", *options.ranks);
  if (options.nodes) text += fmt::format(" --nodes {}", *options.nodes);
  if (options.faults != usual.faults) text += fmt::format(" --faults {}", to_string(options.faults));
  if (options.layout) text += fmt::format(" --layout {}", to_string(*options.layout));
  if (options.deadline != usual.deadline) {
    text += fmt::format(" --deadline-ms {}",
                        std::chrono::duration_cast<std::chrono::milliseconds>(options.deadline).count());
  }
  if (options.staging_budget_bytes)
    text += fmt::format(" --staging-budget {}", *options.staging_budget_bytes);
  if (options.stall_budget_bytes) text += fmt::format(" --stall-budget {}", *options.stall_budget_bytes);
  return text;
}

}  // namespace trimtab::verify
