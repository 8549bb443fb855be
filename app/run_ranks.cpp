// SPDX-License-Identifier: Apache-2.0
#include "app/run_ranks.hpp"

#include "app/console.hpp"
#include "app/forked_ranks.hpp"
#include "app/job_end.hpp"
#include "app/rank_launch.hpp"
#include "app/rank_run.hpp"
#include "app/run_faults.hpp"
#include "app/run_view.hpp"
#include "app/scratch_folder.hpp"
#include "app/tbb_executor.hpp"
#include "verify/cut_transport.hpp"

#include <trimtab/transport/bootstrap.hpp>
#include <trimtab/transport/mpi.hpp>
#include <trimtab/transport/ucx.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace trimtab {
namespace {

/// Gives a run in which a rank is to be lost a folder for checkpoints, where none was named.
Status add_checkpoint(RunOptions& options, std::optional<ScratchFolder>& scratch) {
  if (!*parse_rank_fault(options.faults) || !options.checkpoint.empty()) return {};
  options.checkpoint = scratch.emplace().path();
  if (options.checkpoint.empty()) return failure(Errc::io, "no temporary folder can be made");
  return {};
}

Result<std::unique_ptr<Transport>> open_ucx(const RunOptions& options, Bootstrap bootstrap) {
  bootstrap.deadline = std::chrono::milliseconds(options.deadline_ms);
  Result<UcxSession> session = UcxSession::start(bootstrap);
  if (!session) return failure(std::move(session));
  return make_ucx_transport(*session);
}

/// What --inject-fault does to this process, if it is the one. Its end may be cut off.
std::function<void()> make_strike(const RunOptions& options, std::unique_ptr<Transport>& end) {
  const std::optional<NamedRankFault> fault = *parse_rank_fault(options.faults);
  if (!fault || fault->rank != end->rank()) return {};
  if (fault->kind == RankFaultKind::kill) return [] { std::raise(SIGKILL); };
  if (fault->kind == RankFaultKind::stop) return [] { std::raise(SIGSTOP); };
  const auto is_cut = std::make_shared<std::atomic<bool>>(false);
  end = std::make_unique<verify::CutTransport>(std::move(end), [is_cut](Rank) { return is_cut->load(); });
  return [is_cut] { *is_cut = true; };
}

/// As a rank of a job that others started.
Outcome run_ucx_rank(const RunOptions& options, const Bootstrap& bootstrap) {
  Result<std::unique_ptr<Transport>> root = open_ucx(options, bootstrap);
  if (!root) return failure(std::move(root));
  const std::function<void()> strike = make_strike(options, *root);
  RankRun run(options, **root, strike);
  const Outcome outcome = run.run();
  return say_before_end("trimtab run", outcome, run.has_failed_alone() || bootstrap.rank == Rank{0});
}

/// With ranks of its own on this machine.
Outcome run_ucx_here(RunOptions options) {
  const bool any_may_be_lost = !options.checkpoint.empty();
  const std::optional<NamedRankFault> fault = *parse_rank_fault(options.faults);
  std::optional<ScratchFolder> scratch;
  if (Status added = add_checkpoint(options, scratch); !added) return failure(std::move(added));
  const auto serve = [&](const Bootstrap& bootstrap) -> Outcome {
    Result<std::unique_ptr<Transport>> root = open_ucx(options, bootstrap);
    if (!root) return failure(std::move(root));
    const std::function<void()> strike = make_strike(options, *root);
    return RankRun(options, **root, strike).run();
  };
  const RankLosses losses{
      .may_be_lost = [&](Rank rank) { return any_may_be_lost || (fault && fault->rank == rank); },
      .on_lost = [](const Error& why) { print_error("trimtab run", why.message); }};
  return run_forked_ranks(options.ranks.value_or(default_num_ranks()), serve, losses);
}

/// What only works with ranks that are started here.
Status check_launched(const RunOptions& options) {
  const std::optional<NamedRankFault> fault = *parse_rank_fault(options.faults);
  if (!fault) return {};
  if (fault->kind == RankFaultKind::stop)
    return failure(Errc::unavailable, "--inject-fault stop: only with ranks that trimtab starts itself");
  if (!options.checkpoint.empty()) return {};
  return failure(Errc::unavailable,
                 fmt::format("--inject-fault {}: ranks that others started need --checkpoint FOLDER, "
                             "which all of them share",
                             to_string(fault->kind)));
}

}  // namespace

Outcome run_inproc(RunOptions options) {
  std::optional<ScratchFolder> scratch;
  if (Status added = add_checkpoint(options, scratch); !added) return failure(std::move(added));
  TbbExecutor executor(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  Result<moe::ServiceOptions> service =
      prepare_service(options, options.ranks.value_or(default_num_ranks()), executor);
  if (!service) return failure(std::move(service));
  if (service->rank_fault) {
    service->rank_fault->strike = [] {};
    service->rank_fault->ends_rank = true;
  }
  RunView view;
  Result<moe::ServiceReport> report = serve_inproc(*service, is_talk_on_terminal() ? &view : nullptr);
  if (is_talk_on_terminal()) view.finish();
  if (!report) return failure(std::move(report));
  return report_run(options, *service, *report);
}

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

Outcome run_ucx(const RunOptions& options) {
  Result<std::optional<Bootstrap>> found = find_bootstrap(process_environment());
  if (!found) return failure(std::move(found));
  if (!*found) return run_ucx_here(options);
  if (Status checked = check_launched(options); !checked)
    return say_before_end("trimtab run", failure(std::move(checked)), (*found)->rank == Rank{0});
  return run_ucx_rank(options, **found);
}

}  // namespace trimtab
