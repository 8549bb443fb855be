// SPDX-License-Identifier: Apache-2.0
#include "verify/trial_report.hpp"

namespace trimtab::verify {

void TrialCounts::add_death(FaultKind kind) noexcept {
  ++faults_injected;
  if (kind == FaultKind::kill) ++kills;
  if (kind == FaultKind::stop) ++stops;
  if (kind == FaultKind::cut) ++cuts;
}

TrialCounts& TrialCounts::operator+=(const TrialCounts& other) noexcept {
  programs += other.programs;
  faults_injected += other.faults_injected;
  committed += other.committed;
  rolled_back += other.rolled_back;
  in_doubt += other.in_doubt;
  in_doubt_resolved += other.in_doubt_resolved;
  corrupted += other.corrupted;
  corrupted_detected += other.corrupted_detected;
  bytes_moved += other.bytes_moved;
  bytes_lower_bound += other.bytes_lower_bound;
  kills += other.kills;
  stops += other.stops;
  cuts += other.cuts;
  views += other.views;
  // Products, since ratios would round.
  const bool is_nearer =
      staging_budget_bytes == 0 || std::uint64_t{other.staging_peak_bytes} * staging_budget_bytes >
                                       std::uint64_t{staging_peak_bytes} * other.staging_budget_bytes;
  if (is_nearer) {
    staging_peak_bytes = other.staging_peak_bytes;
    staging_budget_bytes = other.staging_budget_bytes;
  }
  return *this;
}

}  // namespace trimtab::verify
