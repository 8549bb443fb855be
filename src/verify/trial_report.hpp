// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  TrialCounts& operator+=(const TrialCounts& other) noexcept;
};

struct TrialReport {
  TrialCounts counts;
  std::optional<Violation> violation;  ///< The first.
};

}  // namespace trimtab::verify
