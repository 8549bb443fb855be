// SPDX-License-Identifier: Apache-2.0
#include "app/rank_run.hpp"

#include "app/console.hpp"
#include "app/job_end.hpp"
#include "app/outputs.hpp"
#include "app/run_report.hpp"
#include "app/run_view.hpp"
#include "moe/gemm.hpp"

#include <fmt/format.h>

#include <string>

namespace trimtab {
namespace {

constexpr Tag prepare_tag{1};

ExitStatus status_of(const moe::ServiceReport& report) {
  return report.outputs_identical && report.unchanged_slots_written == 0 ? ExitStatus::ok
                                                                         : ExitStatus::check_failed;
}

}  // namespace

Outcome report_run(const RunOptions& options, const moe::ServiceOptions& service,
                   const moe::ServiceReport& report) {
  Outputs outputs;
  if (Status added = outputs.add(options.json, run_document(service, report, options.transport)); !added) {
    return failure(std::move(added));
  }
  if (Status written = outputs.commit(); !written) return failure(std::move(written));
  const bool is_stdout_taken = options.json == "-";
  (is_stdout_taken ? print_talk : print_data)(run_text(service, report, options.transport));
  return status_of(report);
}

Outcome RankRun::run() {
  Result<moe::ServiceOptions> service = prepare_here();
  const Status mine = service ? Status{} : Status(tl::unexpected(service.error()));
  Result<Status> agreed = agree(root_, clock_, {prepare_tag, deadline()}, mine);
  if (!agreed) return fail_alone(std::move(agreed).error());
  if (!*agreed) return failure(std::move(*agreed));
  moe::use_one_gemm_thread();
  RunView view;
  const bool shows = root_.rank() == Rank{0} && is_talk_on_terminal();
  Result<moe::ServiceReport> report = moe::serve_rank(*service, root_, clock_, shows ? &view : nullptr);
  if (shows) view.finish();
  if (!report) return fail_alone(std::move(report).error());
  const Rank first = report->death ? report->death->members.front() : Rank{0};
  return root_.rank() == first ? report_run(options_, *service, *report) : status_of(*report);
}

/// A wrong option that only shows here is an error like others: thrown on, it would be said by every rank.
Result<moe::ServiceOptions> RankRun::prepare_here() {
  try {
    return prepare();
  } catch (const CLI::ParseError& wrong) {
    return failure(Errc::unavailable, fmt::format("{} (see trimtab run --help)", wrong.what()));
  }
}

Result<moe::ServiceOptions> RankRun::prepare() {
  if (options_.ranks && *options_.ranks != root_.num_ranks()) {
    return failure(Errc::unavailable, fmt::format("--ranks {}, but the {} job has {}", *options_.ranks,
                                                  root_.capabilities().name, root_.num_ranks()));
  }
  SerialExecutor executor;
  Result<moe::ServiceOptions> service = prepare_service(options_, root_.num_ranks(), executor);
  if (service && service->rank_fault) service->rank_fault->strike = strike_;
  return service;
}

Outcome RankRun::fail_alone(Error error) {
  has_failed_alone_ = true;
  const std::string who = fmt::format("rank {}: ", root_.rank().value());
  if (!error.message.starts_with(who)) error.message = who + error.message;
  return tl::unexpected(std::move(error));
}

}  // namespace trimtab
