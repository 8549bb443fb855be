// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"
#include "verify/trial_report.hpp"

#include <trimtab/migrate/program.hpp>

#include <cstdint>
#include <optional>

namespace trimtab::verify {

/// What has gone wrong around the ranks.
struct Struck {
  std::uint64_t all = 0;
  std::uint64_t corrupted_payloads = 0;
  std::uint64_t may_doubt = 0;  ///< Control messages lost or late, pauses, jumps.

  void add(const CaseFault& fault) noexcept;
};

[[nodiscard]] Struck operator-(const Struck& a, const Struck& b) noexcept;

enum class Ending : std::uint8_t { committed, rolled_back, in_doubt };

/// How a program ended, over all ranks.
struct ProgramOutcome {
  Ending ending = Ending::committed;
  Struck struck;  ///< Meanwhile.
  std::uint64_t bytes_moved = 0;
  bool found_corruption = false;  ///< Some rank rolled back for a checksum.
};

/// Adds the outcome to `counts`.
/// @return a violation when a damaged payload was committed or never found, or when the bytes that a
/// committed program moved are not those it said.
[[nodiscard]] std::optional<Violation> tally(const ProgramOutcome& outcome, const Program& program,
                                             std::uint64_t seed, TrialCounts& counts);

}  // namespace trimtab::verify
