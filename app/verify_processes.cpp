// SPDX-License-Identifier: Apache-2.0
#include "app/verify_processes.hpp"

#include "app/console.hpp"
#include "app/exit_status.hpp"
#include "verify/process_trial.hpp"

#include <fmt/format.h>

#include <functional>
#include <string_view>

namespace trimtab {

namespace {

using OnLost = std::function<void(std::uint64_t seed, const Error& error)>;

Result<verify::CampaignReport> play_cases(verify::CampaignOptions& options, Transport& root,
                                          std::string_view job, const OnLost& on_lost) {
  verify::CaseOptions& cases = options.cases;
  if (cases.ranks.value_or(root.num_ranks()) != root.num_ranks()) {
    return failure(Errc::unavailable,
                   fmt::format("--ranks {}, but the {} job has {}", *cases.ranks, job, root.num_ranks()));
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
      on_lost(drawn->seed, played.error());
      return failure(std::move(played));
    }
    report.counts += played->counts;
    if (played->violation) report.violations.push_back(*std::move(played->violation));
  }
  return report;
}

}  // namespace

Result<verify::CampaignReport> run_process_campaign(verify::CampaignOptions& options, MpiSession& session,
                                                    Transport& root) {
  return play_cases(options, root, "MPI", [&](std::uint64_t seed, const Error& error) {
    print_error("trimtab verify",
                fmt::format("rank {}: seed {}: {}", root.rank().value(), seed, error.message));
    session.abort(static_cast<int>(exit_status_of(error.code)));
  });
}

Result<verify::CampaignReport> run_process_campaign(verify::CampaignOptions& options, Transport& root) {
  return play_cases(options, root, "ucx", [](std::uint64_t, const Error&) {});
}

}  // namespace trimtab
