// SPDX-License-Identifier: Apache-2.0
#include "app/plan_from.hpp"

#include "app/console.hpp"
#include "app/outputs.hpp"
#include "app/tbb_executor.hpp"
#include "io/placement_file.hpp"
#include "report/delta_report.hpp"
#include "report/plan_report.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace trimtab {
namespace {

Status write_delta(const DeltaArguments& args, const DeltaJob& job, const DeltaPlan& made, double ms) {
  const DeltaSummary summary = summarize(made);
  nlohmann::ordered_json document = plan_document(made.plan, summarize(made.plan), ms);
  add_delta(document, made, summary, args.expert_bytes, args.show_curve);
  Outputs outputs;
  if (Status s = outputs.add(job.output, format_placement(made.plan.placement)); !s) return s;
  if (Status s = outputs.add(job.json, document); !s) return s;
  if (Status s = outputs.commit(); !s) return s;
  std::string text = delta_text(made, summary, args.expert_bytes, ms);
  if (args.show_curve) text += "\n" + curve_text(made);
  const bool is_stdout_taken = job.output == "-" || job.json == "-";
  (is_stdout_taken ? print_talk : print_data)(text);
  return {};
}

}  // namespace

Status plan_from(const DeltaArguments& args, const DeltaJob& job) {
  Result<Placement> current = args.read_current(job.loads, job.topology);
  if (!current) return failure(std::move(current));
  const DeltaOptions options = args.options(*current);
  TbbExecutor executor(job.threads);
  const auto start = std::chrono::steady_clock::now();
  Result<DeltaPlan> made = plan_delta(job.loads, *current, job.topology, job.options, options, executor);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (!made) {
    made.error().message = fmt::format("{}, {}: {}", job.loads_path, args.from, made.error().message);
    return failure(std::move(made));
  }
  return write_delta(args, job, *made, time.count());
}

}  // namespace trimtab
