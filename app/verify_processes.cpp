// SPDX-License-Identifier: Apache-2.0
#include "app/verify_processes.hpp"

#include "app/console.hpp"
#include "app/exit_status.hpp"
#include "verify/process_trial.hpp"

#include <fmt/format.h>

namespace trimtab {

Result<verify::CampaignReport> run_process_campaign(verify::CampaignOptions& options, MpiSession& session,
                                                    Transport& root) {
  verify::CaseOptions& cases = options.cases;
  if (cases.ranks.value_or(root.num_ranks()) != root.num_ranks()) {
    return failure(Errc::unavailable,
                   fmt::format("--ranks {}, but the MPI job has {}", *cases.ranks, root.num_ranks()));
  }
  cases.ranks = root.num_ranks();
  SerialExecutor executor;
  if (Status checked = check_options(options, executor); !checked) return failure(std::move(checked));
  const SteadyClock clock;
  verify::CampaignReport report;
  for (std::size_t i = 0; i < options.num_cases; ++i) {
    Result<verify::Case> drawn = draw_case(options.seed + i, cases);
    if (!drawn) return failure(std::move(drawn));
    Result<verify::TrialReport> played = run_process_trial(*drawn, root, clock);
    if (!played) {
      print_error("trimtab verify", fmt::format("rank {}: seed {}: {}", root.rank().value(), drawn->seed,
                                                played.error().message));
      session.abort(static_cast<int>(exit_status_of(played.error().code)));
    }
    report.counts += played->counts;
    if (played->violation) report.violations.push_back(*std::move(played->violation));
  }
  return report;
}

}  // namespace trimtab
