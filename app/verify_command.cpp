// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/job_end.hpp"
#include "app/outputs.hpp"
#include "app/tbb_executor.hpp"
#include "app/verify_processes.hpp"
#include "app/verify_report.hpp"
#include "verify/forward_board.hpp"
#include "verify/local_campaign.hpp"
#include "verify/process_trial.hpp"
#include "verify/trial.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/bootstrap.hpp>
#include <trimtab/transport/mpi.hpp>
#include <trimtab/transport/ucx.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace trimtab {
namespace {

struct VerifyOptions {
  verify::CampaignOptions campaign{.cases = {}, .num_cases = 1000};
  std::string transport = "inproc";
  std::string faults = "all";
  std::string layout;
  std::optional<std::int64_t> deadline_ms;
  int jobs = 0;  ///< 0: as many as cores.
  bool mutants = false;
  std::string mutant;
  bool explain = false;
  std::string json;
};

void settle_options(VerifyOptions& options) {
  verify::CaseOptions& cases = options.campaign.cases;
  Result<verify::FaultKinds> faults = verify::fault_kinds_named(options.faults);
  if (!faults) usage_error("--faults", faults.error().message);
  cases.faults = std::move(*faults);
  if (!options.layout.empty()) cases.layout = verify::layout_family_named(options.layout);
  const bool is_ucx = options.transport == "ucx";
  cases.deadline = std::chrono::milliseconds(options.deadline_ms.value_or(is_ucx ? 200 : 1000));
  if (options.transport == "mpi") cases.faults = verify::without_deaths(std::move(cases.faults));
  if (is_ucx && cases.ranks.value_or(1) > verify::ForwardBoard::max_ranks) {
    usage_error("--ranks", fmt::format("{} > {}, the most with --transport ucx", *cases.ranks,
                                       verify::ForwardBoard::max_ranks));
  }
  if (cases.nodes && cases.ranks && *cases.nodes > *cases.ranks) {
    usage_error("--nodes", fmt::format("{} nodes for {} ranks", *cases.nodes, *cases.ranks));
  }
  if (options.transport == "inproc") return;
  for (const auto& [name, is_given] : {std::pair("--mutants", options.mutants),
                                       {"--mutant", !options.mutant.empty()},
                                       {"--explain", options.explain}}) {
    if (is_given) usage_error(name, "only with --transport inproc, where every case goes the same way again");
  }
}

std::vector<Mutant> mutants_of(const VerifyOptions& options) {
  if (!options.mutant.empty()) return {*mutant_named(options.mutant)};
  if (options.mutants) return {std::begin(all_mutants), std::end(all_mutants)};
  return {};
}

std::vector<std::string> mutant_names() {
  std::vector<std::string> names;
  for (Mutant mutant : all_mutants) names.emplace_back(to_string(mutant));
  return names;
}

Outcome report(const VerifyOptions& options, const VerifyResult& result) {
  Outputs outputs;
  if (Status added = outputs.add(options.json, verify_document(result)); !added)
    return failure(std::move(added));
  if (Status written = outputs.commit(); !written) return failure(std::move(written));
  (options.json == "-" ? print_talk : print_data)(verify_text(result));
  return result.is_sound() ? ExitStatus::ok : ExitStatus::check_failed;
}

Outcome run_inproc(const VerifyOptions& options) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  TbbExecutor executor(options.jobs == 0 ? cores : options.jobs);
  if (Status checked = check_options(options.campaign, executor); !checked)
    return failure(std::move(checked));
  const SteadyClock clock;
  const Clock::time_point begun = clock.now();
  VerifyResult result{
      .transport = options.transport, .options = options.campaign, .campaign = {}, .mutants = {}};
  Result<verify::CampaignReport> campaign = run_campaign(options.campaign, executor);
  if (!campaign) return failure(std::move(campaign));
  result.campaign = std::move(*campaign);
  if (const std::vector<Mutant> broken = mutants_of(options); !broken.empty()) {
    Result<std::vector<verify::MutantReport>> mutants = run_mutants(options.campaign, broken, executor);
    if (!mutants) return failure(std::move(mutants));
    result.mutants = std::move(*mutants);
  }
  result.seconds = std::chrono::duration<double>(clock.now() - begun).count();
  return report(options, result);
}

/// Before anything makes a thread: the ranks are forked.
Outcome run_local(VerifyOptions& options) {
  verify::CaseOptions& cases = options.campaign.cases;
  cases.ranks = cases.ranks.value_or(3);
  SerialExecutor executor;
  if (Status checked = check_options(options.campaign, executor); !checked)
    return failure(std::move(checked));
  const SteadyClock clock;
  const Clock::time_point begun = clock.now();
  constexpr int usual_jobs = 3;  // They wait most of the time.
  Result<verify::CampaignReport> campaign =
      verify::run_local_campaign(options.campaign, options.jobs == 0 ? usual_jobs : options.jobs);
  if (!campaign) return failure(std::move(campaign));
  VerifyResult result{.transport = options.transport,
                      .options = options.campaign,
                      .campaign = std::move(*campaign),
                      .mutants = {}};
  result.seconds = std::chrono::duration<double>(clock.now() - begun).count();
  return report(options, result);
}

/// One rank's part of a campaign of processes. Rank 0 alone reports.
Outcome report_rank(const VerifyOptions& options, Rank rank, Clock::time_point begun,
                    Result<verify::CampaignReport> campaign) {
  if (!campaign) return failure(std::move(campaign));
  VerifyResult result{.transport = options.transport,
                      .options = options.campaign,
                      .campaign = std::move(*campaign),
                      .mutants = {}};
  result.seconds = std::chrono::duration<double>(SteadyClock().now() - begun).count();
  if (rank == Rank{0}) return report(options, result);
  return result.is_sound() ? ExitStatus::ok : ExitStatus::check_failed;
}

Outcome run_rank(VerifyOptions& options, MpiSession& session, Transport& root) {
  const Clock::time_point begun = SteadyClock().now();
  Result<verify::CampaignReport> campaign = run_process_campaign(options.campaign, session, root);
  return report_rank(options, root.rank(), begun, std::move(campaign));
}

/// Who was started by others, and told where to meet them, has no parent that could do away with ranks.
Outcome run_bootstrapped(VerifyOptions& options, const Bootstrap& bootstrap) {
  verify::CaseOptions& cases = options.campaign.cases;
  cases.faults = verify::without_deaths(std::move(cases.faults));
  Result<UcxSession> session = UcxSession::start(bootstrap);
  if (!session) return failure(std::move(session));
  Result<std::unique_ptr<Transport>> root = make_ucx_transport(*session);
  if (!root) return failure(std::move(root));
  const Clock::time_point begun = SteadyClock().now();
  Result<verify::CampaignReport> campaign = run_process_campaign(options.campaign, **root);
  return report_rank(options, bootstrap.rank, begun, std::move(campaign));
}

Outcome run_ucx(VerifyOptions& options) {
  const Result<std::optional<Bootstrap>> found = find_bootstrap(process_environment());
  if (!found) return tl::unexpected<Error>(found.error());
  return *found ? run_bootstrapped(options, **found) : run_local(options);
}

Outcome run_mpi(VerifyOptions& options) {
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(
      verify::process_patience(options.campaign.cases.deadline));
  Result<MpiSession> session = MpiSession::start(job_limits("trimtab verify", patience));
  if (!session) return failure(std::move(session));
  Result<std::unique_ptr<Transport>> root = make_mpi_transport(*session);
  if (!root) return failure(std::move(root));
  const Outcome outcome = run_rank(options, *session, **root);
  return say_before_end("trimtab verify", outcome, (*root)->rank() == Rank{0});
}

Outcome explain_case(const VerifyOptions& options) {
  Result<verify::Case> drawn = verify::draw_case(options.campaign.seed, options.campaign.cases);
  if (!drawn) return failure(std::move(drawn));
  print_data(describe(*drawn));
  const verify::Story story = [](const std::string& line) {
    print_data(line.ends_with('\n') ? line : line + '\n');
  };
  Result<verify::TrialReport> played = verify::run_trial(*drawn, mutant_named(options.mutant), story);
  if (!played) return failure(std::move(played));
  return played->violation ? ExitStatus::check_failed : ExitStatus::ok;
}

Outcome run_verify(VerifyOptions& options) {
  settle_options(options);
  if (options.transport == "mpi") return run_mpi(options);
  if (options.transport == "ucx") return run_ucx(options);
  return options.explain ? explain_case(options) : run_inproc(options);
}

void add_case_options(CLI::App& verb, VerifyOptions& options) {
  verify::CaseOptions& cases = options.campaign.cases;
  verb.add_option("--ranks", cases.ranks, "Ranks of every case (default: 2 to 8)")
      ->check(in_range(1, 4096))
      ->type_name("N");
  verb.add_option("--nodes", cases.nodes, "Nodes that the ranks lie on (default: 1 to 3)")
      ->check(in_range(1, 4096))
      ->type_name("N");
  verb.add_option("--layout", options.layout,
                  "dense, strided (padded slots or rows) or nz (default: any, also mixed)")
      ->check(CLI::IsMember({"dense", "strided", "nz"}))
      ->option_text("NAME");
  verb.add_option("--faults", options.faults,
                  "all, none, or some of drop,corrupt,duplicate,delay,reorder,fail,pause,jump,kill,stop,cut")
      ->type_name("LIST")
      ->capture_default_str();
  verb.add_option("--deadline-ms", options.deadline_ms,
                  "For each wait of the protocol, of virtual time with inproc (default: 1000; 200 with ucx)")
      ->check(in_range(1, 1 << 30))
      ->type_name("N");
  verb.add_option("--staging-budget", cases.staging_budget_bytes,
                  "Per rank, workspaces included (default: from one bundle to all)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("BYTES");
  verb.add_option("--stall-budget", cases.stall_budget_bytes,
                  "Most that a step exchanges with the slots of a rank, if it is not a single one (default: "
                  "mostly none)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("BYTES");
}

void add_campaign_options(CLI::App& verb, VerifyOptions& options) {
  verb.add_option("--campaign", options.campaign.num_cases, "Cases, each with one to five programs or more")
      ->check(in_range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--seed", options.campaign.seed, "Of the first case; the next has the next one")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--transport", options.transport,
                  "inproc: simulated ranks on a virtual clock; mpi: processes of a launcher; ucx: processes "
                  "of its own, which may die")
      ->check(CLI::IsMember({"inproc", "mpi", "ucx"}))
      ->option_text("NAME")
      ->capture_default_str();
  verb.add_option("--jobs", options.jobs, "Cases played at the same time (default: as many as cores)")
      ->check(in_range(1, 1024))
      ->type_name("N");
  auto* all = verb.add_flag("--mutants", options.mutants,
                            "Also play the cases against broken engines, until each is caught");
  verb.add_option("--mutant", options.mutant, "Against this one only")
      ->check(CLI::IsMember(mutant_names()))
      ->option_text("NAME")
      ->excludes(all);
  verb.add_flag("--explain", options.explain,
                "Print the programs of the one case of --seed and what becomes of them");
}

}  // namespace

CLI::App* add_verify_command(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb = app.add_subcommand(
      "verify", "Move weights under faults, in random cases, and compare every byte of every slot");
  add_campaign_options(*verb, *options);
  add_case_options(*verb, *options);
  verb->add_option("--json", options->json, "Write the document trimtab.verify/1; - is standard output")
      ->type_name("FILE|-");
  verb->callback([options, &outcome] { outcome = run_verify(*options); });
  return verb;
}

}  // namespace trimtab
