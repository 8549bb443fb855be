// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/forked_ranks.hpp"
#include "app/job_end.hpp"
#include "app/outputs.hpp"
#include "app/rank_launch.hpp"
#include "app/run_faults.hpp"
#include "app/run_options.hpp"
#include "app/run_report.hpp"
#include "app/run_view.hpp"
#include "app/share_option.hpp"
#include "app/tbb_executor.hpp"
#include "moe/gemm.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/bootstrap.hpp>
#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/mpi.hpp>
#include <trimtab/transport/ucx.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace trimtab {
namespace {

/// Checks the answer, writes the document and the summary.
Outcome report_run(const RunOptions& options, const moe::ServiceOptions& service,
                   const moe::ServiceReport& report) {
  Outputs outputs;
  if (Status added = outputs.add(options.json, run_document(service, report, options.transport)); !added) {
    return failure(std::move(added));
  }
  if (Status written = outputs.commit(); !written) return failure(std::move(written));
  const bool is_stdout_taken = options.json == "-";
  (is_stdout_taken ? print_talk : print_data)(run_text(service, report, options.transport));
  return report.outputs_identical && report.unchanged_slots_written == 0 ? ExitStatus::ok
                                                                         : ExitStatus::check_failed;
}

Outcome run_inproc(const RunOptions& options) {
  Result<RunLoads> loads = make_run_loads(options);
  if (!loads) return failure(std::move(loads));
  Result<moe::ServiceOptions> service =
      make_service_options(options, *loads, options.ranks.value_or(default_num_ranks()));
  if (!service) return failure(std::move(service));
  TbbExecutor executor(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  if (Status calibrated = calibrate_service(*service, *loads, executor); !calibrated)
    return failure(std::move(calibrated));
  RunView view;
  Result<moe::ServiceReport> report = serve_inproc(*service, is_talk_on_terminal() ? &view : nullptr);
  if (is_talk_on_terminal()) view.finish();
  if (!report) return failure(std::move(report));
  return report_run(options, *service, *report);
}

/// One rank as a process of a job. What is wrong with the input all ranks find alike.
class RankRun {
 public:
  RankRun(const RunOptions& options, Transport& root) : options_(options), root_(root) {}

  Outcome run() {
    Result<moe::ServiceOptions> service = prepare_here();
    const Status mine = service ? Status{} : Status(tl::unexpected(service.error()));
    Result<Status> agreed = agree(root_, clock_, {prepare_tag, deadline()}, mine);
    if (!agreed) return fail_alone(std::move(agreed).error());
    if (!*agreed) return failure(std::move(*agreed));
    moe::use_one_gemm_thread();
    RunView view;
    const bool shows = is_first() && is_talk_on_terminal();
    Result<moe::ServiceReport> report = moe::serve_rank(*service, root_, clock_, shows ? &view : nullptr);
    if (shows) view.finish();
    if (!report) return fail_alone(std::move(report).error());
    const Rank first = report->death ? report->death->members.front() : Rank{0};
    return root_.rank() == first ? report_run(options_, *service, *report) : status_of(*report);
  }

  /// Whether `run` returned an error that the other ranks cannot know of: they may wait for this one.
  [[nodiscard]] bool has_failed_alone() const noexcept { return has_failed_alone_; }

 private:
  static constexpr Tag prepare_tag{1};

  [[nodiscard]] bool is_first() const { return root_.rank() == Rank{0}; }
  [[nodiscard]] Clock::duration deadline() const { return std::chrono::milliseconds(options_.deadline_ms); }

  /// A wrong option that only shows here is an error like others: thrown on, it would be said by every rank.
  Result<moe::ServiceOptions> prepare_here() {
    try {
      return prepare();
    } catch (const CLI::ParseError& wrong) {
      return failure(Errc::unavailable, fmt::format("{} (see trimtab run --help)", wrong.what()));
    }
  }

  Result<moe::ServiceOptions> prepare() {
    if (options_.ranks && *options_.ranks != root_.num_ranks()) {
      return failure(Errc::unavailable, fmt::format("--ranks {}, but the {} job has {}", *options_.ranks,
                                                    root_.capabilities().name, root_.num_ranks()));
    }
    Result<RunLoads> loads = make_run_loads(options_);
    if (!loads) return failure(std::move(loads));
    Result<moe::ServiceOptions> service = make_service_options(options_, *loads, root_.num_ranks());
    if (!service) return service;
    SerialExecutor executor;
    if (Status calibrated = calibrate_service(*service, *loads, executor); !calibrated)
      return failure(std::move(calibrated));
    return service;
  }

  Outcome fail_alone(Error error) {
    has_failed_alone_ = true;
    error.message = fmt::format("rank {}: {}", root_.rank().value(), error.message);
    return tl::unexpected(std::move(error));
  }

  static ExitStatus status_of(const moe::ServiceReport& report) {
    return report.outputs_identical && report.unchanged_slots_written == 0 ? ExitStatus::ok
                                                                           : ExitStatus::check_failed;
  }

  const RunOptions& options_;
  Transport& root_;
  SteadyClock clock_;
  bool has_failed_alone_ = false;
};

Outcome run_mpi(const RunOptions& options) {
  Result<MpiSession> session =
      MpiSession::start(job_limits("trimtab run", std::chrono::milliseconds(options.deadline_ms)));
  if (!session) return failure(std::move(session));
  Result<std::unique_ptr<Transport>> root = make_mpi_transport(*session);
  if (!root) return failure(std::move(root));
  RankRun run(options, **root);
  const Outcome outcome = run.run();
  const ExitStatus status =
      say_before_end("trimtab run", outcome, run.has_failed_alone() || (*root)->rank() == Rank{0});
  if (run.has_failed_alone()) session->abort(static_cast<int>(status));
  return status;
}

Result<std::unique_ptr<Transport>> open_ucx(const RunOptions& options, Bootstrap bootstrap) {
  bootstrap.deadline = std::chrono::milliseconds(options.deadline_ms);
  Result<UcxSession> session = UcxSession::start(bootstrap);
  if (!session) return failure(std::move(session));
  return make_ucx_transport(*session);
}

/// As a rank of a job that others started.
Outcome run_ucx_rank(const RunOptions& options, const Bootstrap& bootstrap) {
  const Result<std::unique_ptr<Transport>> root = open_ucx(options, bootstrap);
  if (!root) return tl::unexpected(root.error());
  RankRun run(options, **root);
  const Outcome outcome = run.run();
  return say_before_end("trimtab run", outcome, run.has_failed_alone() || bootstrap.rank == Rank{0});
}

/// A folder that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "trimtab-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Empty when none could be made.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// With ranks of its own on this machine.
Outcome run_ucx_here(RunOptions options) {
  const std::optional<Rank> killed = *parse_kill(options.faults);
  std::optional<ScratchFolder> checkpoint;
  if (killed) {
    options.checkpoint = checkpoint.emplace().path();
    if (options.checkpoint.empty()) return failure(Errc::io, "no temporary folder can be made");
  }
  const auto serve = [&](const Bootstrap& bootstrap) -> Outcome {
    const Result<std::unique_ptr<Transport>> root = open_ucx(options, bootstrap);
    if (!root) return tl::unexpected(root.error());
    return RankRun(options, **root).run();
  };
  return run_forked_ranks(options.ranks.value_or(default_num_ranks()), serve,
                          [&](Rank rank) { return rank == killed; });
}

Outcome run_ucx(const RunOptions& options) {
  Result<std::optional<Bootstrap>> found = find_bootstrap(process_environment());
  if (!found) return failure(std::move(found));
  if (*found && *parse_kill(options.faults))
    return failure(Errc::unavailable, "--inject-fault kill: only with ranks that trimtab starts itself");
  return *found ? run_ucx_rank(options, **found) : run_ucx_here(options);
}

void add_traffic_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--loads", options.loads,
                  "Load files, one phase of the traffic each (default: generated, drifting)")
      ->type_name("FILE...");
  verb.add_option("--layers", options.layers,
                  "Serve rows A to B-1 of the files (default: the first 4 that are not dense)")
      ->type_name("A:B");
  verb.add_option("--tokens", options.tokens,
                  "Tokens per rank and forward (default: 128 per expert over all ranks)")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  verb.add_option(
          "--forwards", options.forwards,
          "Forwards of each arm, rounded up to whole blocks: 16 or more (default: 64; with --loads 16)")
      ->check(in_range(1, 1 << 30))
      ->type_name("N");
  verb.add_option("--rebalance-every", options.rebalance_every, "Forwards between two plans")
      ->check(in_range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  add_share_option(verb, options.shares,
                   "even, or exact: plan for exact shares, and answer shifts by new shares first");
  verb.add_option("--split-every", options.split_every, "Forwards between two changes of shares (default: 1)")
      ->check(in_range(1, 1 << 30))
      ->type_name("N");
  verb.add_option("--seed", options.seed, "Of weights, tokens and generated loads")
      ->type_name("N")
      ->capture_default_str();
}

void add_model_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--hidden", options.hidden, "Width of a token's state")
      ->check(in_range(1, moe::max_width))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--intermediate", options.intermediate, "Width inside an expert")
      ->check(in_range(1, moe::max_width))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--top-k", options.top_k,
                  "Experts per token (default: 8 from 64 experts on, 4 from 16, else 2)")
      ->check(in_range(1, 1024))
      ->type_name("N");
  verb.add_option("--groups", options.groups, "Expert groups of group-limited routing")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--top-groups", options.top_groups, "Groups a token may use (default: all)")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
}

void add_cluster_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--ranks", options.ranks,
                  "Ranks (default: as many as cores, 2 to 8; with mpi what the launcher started)")
      ->check(in_range(1, 1024))
      ->type_name("N");
  verb.add_option("--slots-per-rank", options.slots_per_rank,
                  "Physical slots per rank and layer (default: 1/8 more than needed)")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  verb.add_option("--nodes", options.nodes, "Nodes that the ranks lie on")
      ->check(in_range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option(
          "--transport", options.transport,
          "inproc: ranks are threads; mpi: processes under mpirun; ucx: processes, started here or by a "
          "launcher")
      ->check(CLI::IsMember({"inproc", "mpi", "ucx"}))
      ->option_text("NAME")
      ->capture_default_str();
  verb.add_option("--deadline-ms", options.deadline_ms,
                  "How long a rank waits for another before the run fails")
      ->check(in_range(1, 3'600'000))
      ->type_name("N")
      ->capture_default_str();
}

void add_fault_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--layout", options.layout,
                  "How experts' matrices lie: dense, or nz (fractal NZ, blocks of 16 rows x 32 bytes)")
      ->check(CLI::IsMember({"dense", "nz"}))
      ->option_text("NAME")
      ->capture_default_str();
  verb.add_option("--inject-fault", options.faults,
                  "corrupt:N, drop:N, delay:N or delay:N:MS: what happens to transfer N (from 0); kill:RANK: "
                  "that rank dies halfway, and the on arm goes on without it; repeatable")
      ->allow_extra_args(false)
      ->type_name("SPEC");
  verb.add_option("--migration-deadline-ms", options.migration_deadline_ms,
                  "How long a step waits before it is rolled back (default: as --deadline-ms; with "
                  "--inject-fault at most 2000)")
      ->check(in_range(1, 3'600'000))
      ->type_name("N");
  verb.add_option("--staging-budget", options.staging_budget_bytes,
                  "Memory per rank in which arriving weights wait (default: room for all slots)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("BYTES");
  verb.add_option("--stall-budget-ms", options.stall_budget_ms,
                  "How long one step may stop a rank, by the rate measured so far (default: no limit)")
      ->check(CLI::PositiveNumber)
      ->type_name("MS");
  verb.add_option("--mutant", options.mutant, "Migrate wrongly on purpose: the outputs must then differ")
      ->check(CLI::IsMember({"wrong-scale", "table-before-weights"}))
      ->option_text("NAME");
}

void check_usage(const RunOptions& options) {
  if (options.staging_budget_bytes == 0U) usage_error("--staging-budget", "0 < 1");
  if (const auto faults = parse_faults(options.faults, Clock::duration{}); !faults) {
    usage_error("--inject-fault", faults.error().message);
  }
  const auto kill = parse_kill(options.faults);
  if (!kill) usage_error("--inject-fault", kill.error().message);
  if (*kill && options.transport != "ucx") usage_error("--inject-fault", "kill needs --transport ucx");
  if (!options.layers.empty() && options.loads.empty()) usage_error("--layers", "needs --loads");
  for (const std::string& path : options.loads) {
    if (is_same_file(options.json, path)) usage_error("--json", "names a file that is read");
  }
  if (options.split_every && options.shares == ShareMode::even) {
    usage_error("--split-every", "needs --split exact");
  }
  if (options.ranks && options.nodes > *options.ranks) {
    usage_error("--nodes", fmt::format("{} nodes for {} ranks", options.nodes, *options.ranks));
  }
}

Outcome run_service(const RunOptions& options) {
  check_usage(options);
  if (options.transport == "mpi") return run_mpi(options);
  return options.transport == "ucx" ? run_ucx(options) : run_inproc(options);
}

}  // namespace

CLI::App* add_run_command(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* verb = app.add_subcommand(
      "run",
      "Serve the same token stream with balancing off and on, live, and compare speed and every output bit");
  add_traffic_options(*verb, *options);
  add_cluster_options(*verb, *options);
  add_model_options(*verb, *options);
  add_fault_options(*verb, *options);
  verb->add_option("--json", options->json, "Write the document trimtab.run/1; - is standard output")
      ->type_name("FILE|-");
  verb->callback([options, &outcome] { outcome = run_service(*options); });
  return verb;
}

}  // namespace trimtab
