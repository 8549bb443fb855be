// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mutant/mutant.hpp"
#include "verify/trial_report.hpp"
#include "verify/verify_options.hpp"

#include <trimtab/core/executor.hpp>

#include <cstdint>
#include <vector>

namespace trimtab::verify {

/// Cases of consecutive seeds.
struct CampaignOptions {
  CaseOptions cases;
  std::uint64_t seed = 1;  ///< Of the first.
  std::size_t num_cases = 1;
};

struct CampaignReport {
  TrialCounts counts;
  std::vector<Violation> violations;  ///< The first of each case that has any, by seed.
};

/// Draws every case, so that options no case can be drawn from are refused before anything moves.
[[nodiscard]] Status check_options(const CampaignOptions& options, Executor& executor);

/// Plays all cases on `executor`. The report depends on the options alone.
[[nodiscard]] Result<CampaignReport> run_campaign(const CampaignOptions& options, Executor& executor);

/// What became of a broken engine.
struct MutantReport {
  Mutant mutant;
  std::size_t num_cases = 0;           ///< Played, the last one caught it.
  std::optional<Violation> violation;  ///< None: it was not caught.
};

/// Plays cases against one mutant after the other, each until it is caught, all of them at most.
[[nodiscard]] Result<std::vector<MutantReport>> run_mutants(const CampaignOptions& options,
                                                            Executor& executor);

}  // namespace trimtab::verify
