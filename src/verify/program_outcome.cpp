// SPDX-License-Identifier: Apache-2.0
#include "verify/program_outcome.hpp"

#include <fmt/format.h>

namespace trimtab::verify {
namespace {

/// A step that ends for another reason before a damaged bundle is complete says nothing about its detection.
std::optional<Violation> tally_corruption(const ProgramOutcome& outcome, const Program& program,
                                          std::uint64_t seed, TrialCounts& counts) {
  const std::uint64_t corrupted = outcome.struck.corrupted_payloads;
  const bool was_undisturbed = outcome.struck.all == corrupted;
  const bool matters = outcome.ending == Ending::committed || outcome.found_corruption || was_undisturbed;
  if (corrupted == 0 || !matters) return std::nullopt;
  counts.corrupted += corrupted;
  if (outcome.ending != Ending::committed && outcome.found_corruption) {
    counts.corrupted_detected += corrupted;
    return std::nullopt;
  }
  return Violation{Check::corruption, seed,
                   fmt::format("the program from epoch {}: {} damaged payloads, none found before the vote",
                               program.epoch.value(), corrupted)};
}

}  // namespace

void Struck::add(const CaseFault& fault) noexcept {
  ++all;
  const bool is_in_time = fault.kind >= FaultKind::pause;
  if (fault.kind == FaultKind::corrupt && !fault.is_control) ++corrupted_payloads;
  if (is_in_time || (fault.is_control && fault.kind != FaultKind::duplicate)) ++may_doubt;
}

Struck operator-(const Struck& a, const Struck& b) noexcept {
  return {a.all - b.all, a.corrupted_payloads - b.corrupted_payloads, a.may_doubt - b.may_doubt};
}

std::optional<Violation> tally(const ProgramOutcome& outcome, const Program& program, std::uint64_t seed,
                               TrialCounts& counts) {
  ++counts.programs;
  counts.faults_injected += outcome.struck.all;
  if (outcome.ending == Ending::in_doubt) ++counts.in_doubt;
  if (outcome.ending == Ending::rolled_back) ++counts.rolled_back;
  if (auto wrong = tally_corruption(outcome, program, seed, counts)) return wrong;
  if (outcome.ending != Ending::committed) return std::nullopt;
  ++counts.committed;
  counts.bytes_moved += outcome.bytes_moved;
  counts.bytes_lower_bound += program.cost.bytes_moved_bound;
  if (outcome.bytes_moved == program.cost.bytes_moved) return std::nullopt;
  return Violation{Check::bytes_moved, seed,
                   fmt::format("the program from epoch {}: {} bytes crossed ranks, it said {}",
                               program.epoch.value(), outcome.bytes_moved, program.cost.bytes_moved)};
}

}  // namespace trimtab::verify
