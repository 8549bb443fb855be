// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/verify_options.hpp"
#include "verify/violation.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace trimtab::verify {

/// What happened in one case or in many.
struct TrialCounts {
  std::uint64_t programs = 0;         ///< Begun, those without faults included.
  std::uint64_t faults_injected = 0;  ///< Those that struck.
  std::uint64_t committed = 0;        ///< Programs whose last step was committed.
  std::uint64_t rolled_back = 0;
  std::uint64_t in_doubt = 0;           ///< Programs that left a rank in doubt.
  std::uint64_t in_doubt_resolved = 0;  ///< By a take-over.
  std::uint64_t corrupted = 0;  ///< Damaged payloads, but those of steps that ended before it mattered.
  std::uint64_t corrupted_detected = 0;  ///< Those that were found before the vote.
  std::uint64_t bytes_moved = 0;         ///< Of programs that were committed.
  std::uint64_t bytes_lower_bound = 0;   ///< Of the same.
  std::size_t staging_peak_bytes = 0;    ///< Of the case that came nearest to its budget.
  std::size_t staging_budget_bytes = 0;  ///< Of the same case.

  std::uint64_t kills = 0;  ///< Ranks that were killed.
  std::uint64_t stops = 0;  ///< Ranks that did nothing for a while.
  std::uint64_t cuts = 0;   ///< Of links.
  std::uint64_t views = 0;  ///< Those that followed another one.

  /// One more that struck.
  void add_death(FaultKind kind) noexcept;
  TrialCounts& operator+=(const TrialCounts& other) noexcept;
  friend bool operator==(const TrialCounts&, const TrialCounts&) = default;
};

struct TrialReport {
  TrialCounts counts;
  std::optional<Violation> violation;  ///< The first.
};

}  // namespace trimtab::verify
