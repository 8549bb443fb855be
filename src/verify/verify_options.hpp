// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace trimtab::verify {

/// What goes wrong around an engine. The first six happen to messages, the next two to ranks and time; the
/// last three can only be survived in a new view.
enum class FaultKind : std::uint8_t {
  drop,
  corrupt,
  duplicate,
  delay,
  reorder,
  fail,
  pause,
  jump,
  kill,  ///< A rank is gone from one moment on.
  stop,  ///< A rank does nothing for a while, nor does it beat.
  cut,   ///< Links lose everything from one moment on.
};
inline constexpr FaultKind all_fault_kinds[]{FaultKind::drop,  FaultKind::corrupt, FaultKind::duplicate,
                                             FaultKind::delay, FaultKind::reorder, FaultKind::fail,
                                             FaultKind::pause, FaultKind::jump,    FaultKind::kill,
                                             FaultKind::stop,  FaultKind::cut};
using FaultKinds = std::set<FaultKind>;

[[nodiscard]] constexpr bool is_message_fault(FaultKind kind) noexcept { return kind < FaultKind::pause; }
/// Whether it takes a rank or a link away.
[[nodiscard]] constexpr bool is_death(FaultKind kind) noexcept { return kind >= FaultKind::kill; }
/// `kinds` without deaths.
[[nodiscard]] FaultKinds without_deaths(FaultKinds kinds);

[[nodiscard]] std::string_view to_string(FaultKind kind) noexcept;

/// "all", "none", or names with commas between.
/// @return `invalid_argument` with the name that is none.
[[nodiscard]] Result<FaultKinds> fault_kinds_named(std::string_view names);
[[nodiscard]] std::string to_string(const FaultKinds& kinds);

enum class LayoutFamily : std::uint8_t { dense, strided, nz };

[[nodiscard]] std::string_view to_string(LayoutFamily family) noexcept;
[[nodiscard]] std::optional<LayoutFamily> layout_family_named(std::string_view name) noexcept;

/// What cases are drawn from, beside the seed. What is not set is drawn too.
struct CaseOptions {
  std::optional<std::int32_t> ranks;
  std::optional<std::int32_t> nodes;
  FaultKinds faults{std::begin(all_fault_kinds), std::end(all_fault_kinds)};
  std::optional<LayoutFamily> layout;
  Clock::duration deadline = std::chrono::seconds(1);
  std::optional<std::size_t> staging_budget_bytes;  ///< Per rank, workspaces included.
  std::optional<std::size_t> stall_budget_bytes;    ///< Per rank and step.
};

/// The options of `trimtab verify` that lead to the same case: "--seed 7 --campaign 1 --ranks 4".
[[nodiscard]] std::string replay_arguments(std::uint64_t seed, const CaseOptions& options);

}  // namespace trimtab::verify
