// SPDX-License-Identifier: Apache-2.0
#include "app/inspect_traces.hpp"

#include "app/console.hpp"
#include "app/outputs.hpp"
#include "app/placement_input.hpp"
#include "app/tbb_executor.hpp"
#include "io/load_file.hpp"
#include "io/trace_file.hpp"
#include "io/trace_loads.hpp"
#include "report/trace_report.hpp"

#include <trimtab/plan/planner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <thread>
#include <utility>

namespace trimtab {
namespace {

constexpr std::int32_t usual_ranks = 8;

const std::map<std::string, TracePhase>& phases() {
  static const std::map<std::string, TracePhase> all{{"prefill", TracePhase::prefill},
                                                     {"decode", TracePhase::decode}};
  return all;
}

void check_usage(const InspectArguments& args) {
  const TraceArguments& traces = args.traces;
  if (!traces.write_loads.empty() && args.inputs.size() > 1) {
    usage_error("--write-loads", fmt::format("takes one trace, not {}", args.inputs.size()));
  }
  if (traces.window && traces.write_loads.empty()) usage_error("--window", "needs --write-loads");
  if (is_same_file(traces.write_loads, args.json))
    usage_error("--json", "names the same file as --write-loads");
  for (const std::string& input : args.inputs) {
    if (would_replace(traces.write_loads, input)) usage_error("--write-loads", "names the file that is read");
  }
  if (would_replace(traces.write_loads, args.placement)) {
    usage_error("--write-loads", "names the file that is read");
  }
}

/// Experts of different models have nothing in common.
Status check_same_model(const TraceFile& trace, const TraceFile& first) {
  TraceInfo expected = first.info();
  expected.domain = trace.info().domain;
  if (trace.info() == expected) return {};
  const auto text = [](const TraceInfo& info) {
    return fmt::format("model {}, {} layers ({} with experts), {} experts in {} groups, top-{}", info.model,
                       info.num_layers, info.layers.size(), info.num_experts, info.num_groups, info.top_k);
  };
  if (text(trace.info()) == text(expected)) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: other layers with experts than in {}", trace.path(), first.path()));
  }
  return failure(Errc::invalid_argument, fmt::format("{}: {}, but {} is of {}", trace.path(),
                                                     text(trace.info()), first.path(), text(expected)));
}

Result<std::vector<TraceFile>> open_traces(const InspectArguments& args) {
  std::vector<TraceFile> traces;
  for (const std::string& input : args.inputs) {
    Result<TraceFile> trace = TraceFile::open(input);
    if (!trace) return failure(std::move(trace));
    traces.push_back(*std::move(trace));
    if (Status same = check_same_model(traces.back(), traces.front()); !same) return failure(std::move(same));
  }
  return traces;
}

/// A trace and its steps; the steps only where they are to be written.
struct Counted {
  TraceSummary summary;
  std::vector<LoadMatrix> steps;
};

Result<Counted> count(const InspectArguments& args, const TraceFile& trace) {
  TraceFold fold{{}, args.traces.window};
  if (!args.traces.phase.empty()) fold.phase = phases().at(args.traces.phase);
  Result<TraceLoads> loads = fold_trace(trace, fold, read_progress_bar(trace.path()));
  if (!loads) return failure(std::move(loads));
  TraceSummary summary{trace.path(),       trace.info().domain, loads->num_tokens,
                       loads->num_prefill, loads->num_requests, loads->total()};
  return Counted{std::move(summary), std::move(loads->steps)};
}

Result<TraceReport> make_report(const InspectArguments& args, const TraceInfo& info,
                                std::vector<TraceSummary> traces) {
  ClusterOptions cluster = args.cluster;
  if (!cluster.ranks) cluster.ranks = usual_ranks;
  const LoadMatrix& loads = traces.front().loads;
  Result<Placement> placement =
      args.placement.empty()
          ? Placement::identity(loads.num_layers(), cluster.num_slots().value_or(loads.num_experts()),
                                loads.num_experts())
          : read_placement_for(args.placement, loads, args.inputs.front());
  if (!placement) return failure(std::move(placement));
  const Topology topology = make_topology_for(cluster, *placement);
  TraceReport report{
      info.model, info.num_groups, info.top_k, 0, 0, args.placement, std::move(traces), {}, {}, {}, {}};
  spread_traces(report, *placement, topology);
  if (!args.traces.with_plans) return report;
  TbbExecutor executor(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  PlanOptions options;
  options.num_groups = info.num_groups;
  Result<TraceMatrix> cross = compute_cross_imbalance(report.traces, topology, options, executor);
  if (!cross) return failure(std::move(cross));
  report.cross_imbalance = *std::move(cross);
  return report;
}

Status write(const InspectArguments& args, const TraceReport& report, const std::vector<LoadMatrix>& steps) {
  Outputs outputs;
  const std::string& loads = args.traces.write_loads;
  if (!loads.empty()) {
    if (Status s = outputs.add(loads, format_loads(steps)); !s) return s;
  }
  if (Status s = outputs.add(args.json, trace_document(report, args.top)); !s) return s;
  if (Status s = outputs.commit(); !s) return s;
  if (args.json != "-" && loads != "-") print_data(trace_text(report, args.top));
  return {};
}

}  // namespace

void TraceArguments::add_to(CLI::App& verb) {
  verb.add_option("--phase", phase, "Count only tokens of this phase of a trace: prefill or decode")
      ->check(CLI::IsMember(&phases()))
      ->option_text("NAME");
  verb.add_flag("--plans", with_plans, "Plan for each trace, and show how the plan serves the others");
  verb.add_option("--write-loads", write_loads,
                  "Write what was counted in a trace as loads; - is standard output")
      ->type_name("FILE|-");
  verb.add_option("--window", window, "Write a step for every N tokens; the last may have fewer")
      ->check(CLI::Range(std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()).description(""))
      ->type_name("N");
}

void TraceArguments::refuse() const {
  const char* const given = !phase.empty()         ? "--phase"
                            : window               ? "--window"
                            : !write_loads.empty() ? "--write-loads"
                            : with_plans           ? "--plans"
                                                   : nullptr;
  if (given != nullptr) usage_error(given, "applies to traces");
}

Outcome inspect_traces(const InspectArguments& args) {
  check_usage(args);
  Result<std::vector<TraceFile>> traces = open_traces(args);
  if (!traces) return failure(std::move(traces));
  std::vector<TraceSummary> summaries;
  std::vector<LoadMatrix> steps;
  for (const TraceFile& trace : *traces) {
    Result<Counted> counted = count(args, trace);
    if (!counted) return failure(std::move(counted));
    summaries.push_back(std::move(counted->summary));
    steps = std::move(counted->steps);
  }
  const TraceInfo& info = traces->front().info();
  Result<TraceReport> report = make_report(args, info, std::move(summaries));
  if (!report) return failure(std::move(report));
  if (Status written = write(args, *report, steps); !written) return failure(std::move(written));
  return ExitStatus::ok;
}

}  // namespace trimtab
