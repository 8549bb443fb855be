// SPDX-License-Identifier: Apache-2.0
#include "verify/campaign.hpp"

#include "verify/trial.hpp"

#include <algorithm>
#include <optional>

namespace trimtab::verify {
namespace {

Result<TrialReport> play(const CampaignOptions& options, std::size_t index, std::optional<Mutant> mutant) {
  Result<Case> drawn = draw_case(options.seed + index, options.cases);
  if (!drawn) return failure(std::move(drawn));
  return run_trial(*drawn, mutant);
}

Result<MutantReport> run_mutant(const CampaignOptions& options, Mutant mutant) {
  MutantReport report{.mutant = mutant, .violation = std::nullopt};
  while (report.num_cases < options.num_cases && !report.violation) {
    Result<TrialReport> played = play(options, report.num_cases, mutant);
    if (!played) return failure(std::move(played));
    ++report.num_cases;
    report.violation = std::move(played->violation);
  }
  return report;
}

/// The first error in order, whatever order the work was done in.
template <class T>
Status first_error(std::vector<std::optional<Result<T>>>& results) {
  for (auto& result : results) {
    if (!*result) return failure(std::move(*result));
  }
  return {};
}

/// Cases are played in blocks, so that memory does not grow with the campaign.
constexpr std::size_t block_size = 4096;

}  // namespace

Status check_options(const CampaignOptions& options, Executor& executor) {
  if (!options.cases.staging_budget_bytes && !options.cases.nodes) return {};  // Nothing that can be refused.
  std::vector<std::optional<Error>> errors(options.num_cases);
  executor.for_each_index(options.num_cases, [&](std::size_t i) {
    Result<Case> drawn = draw_case(options.seed + i, options.cases);
    if (!drawn) errors[i] = std::move(drawn).error();
  });
  const auto failed = std::ranges::find_if(errors, [](const auto& error) { return error.has_value(); });
  if (failed == errors.end()) return {};
  return tl::unexpected<Error>(std::move(**failed));
}

Result<CampaignReport> run_campaign(const CampaignOptions& options, Executor& executor) {
  CampaignReport report;
  for (std::size_t first = 0; first < options.num_cases; first += block_size) {
    std::vector<std::optional<Result<TrialReport>>> played(std::min(block_size, options.num_cases - first));
    executor.for_each_index(played.size(),
                            [&](std::size_t i) { played[i] = play(options, first + i, std::nullopt); });
    if (Status all = first_error(played); !all) return failure(std::move(all));
    for (auto& one : played) {
      report.counts += (*one)->counts;
      if ((*one)->violation) report.violations.push_back(*std::move((*one)->violation));
    }
  }
  return report;
}

Result<std::vector<MutantReport>> run_mutants(const CampaignOptions& options, std::span<const Mutant> mutants,
                                              Executor& executor) {
  std::vector<std::optional<Result<MutantReport>>> played(mutants.size());
  executor.for_each_index(played.size(), [&](std::size_t i) { played[i] = run_mutant(options, mutants[i]); });
  if (Status all = first_error(played); !all) return failure(std::move(all));
  std::vector<MutantReport> reports;
  reports.reserve(played.size());
  for (auto& one : played) reports.push_back(std::move(**one));
  return reports;
}

}  // namespace trimtab::verify
