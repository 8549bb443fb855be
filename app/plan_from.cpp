// SPDX-License-Identifier: Apache-2.0
#include "app/plan_from.hpp"

#include "report/delta_report.hpp"
#include "report/plan_report.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace trimtab {
namespace {

PlanOutput describe(const DeltaPlan& made, const DeltaArguments& args, const DeltaJob& job, double ms) {
  const DeltaSummary summary = summarize(made);
  PlanOutput output{made.plan.placement, plan_document(made.plan, summarize(made.plan), ms),
                    delta_text(made, summary, job.expert_bytes, ms)};
  add_delta(output.document, made, summary, job.expert_bytes, args.show_curve);
  if (args.show_curve) output.text += "\n" + curve_text(made);
  return output;
}

}  // namespace

Result<PlanOutput> plan_from(const DeltaArguments& args, const DeltaJob& job, Executor& executor) {
  const Result<Placement> current = args.read_current(job.loads, job.topology);
  if (!current) return failure(current.error().code, current.error().message);
  const DeltaOptions options = args.options(*current, job.expert_bytes);
  const auto start = std::chrono::steady_clock::now();
  Result<DeltaPlan> made = plan_delta(job.loads, *current, job.topology, job.options, options, executor);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (!made) {
    made.error().message = fmt::format("{}: {}", args.from, made.error().message);
    return failure(std::move(made));
  }
  return describe(*made, args, job, time.count());
}

}  // namespace trimtab
