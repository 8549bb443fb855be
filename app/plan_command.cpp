// SPDX-License-Identifier: Apache-2.0
#include "app/budget_options.hpp"
#include "app/cluster_options.hpp"
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/delta_options.hpp"
#include "app/layer_range.hpp"
#include "app/outputs.hpp"
#include "app/plan_algorithm.hpp"
#include "app/plan_from.hpp"
#include "app/plan_output.hpp"
#include "app/planning_options.hpp"
#include "app/slot_sweep.hpp"
#include "app/tbb_executor.hpp"
#include "io/load_file.hpp"
#include "io/placement_file.hpp"
#include "report/budget_report.hpp"
#include "report/graph_report.hpp"
#include "report/plan_report.hpp"
#include "report/spill_report.hpp"
#include "report/sweep_report.hpp"

#include <trimtab/plan/planner.hpp>
#include <trimtab/plan/scenarios.hpp>
#include <trimtab/plan/slot_budget.hpp>
#include <trimtab/plan/slot_sweep.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

struct PlanArguments {
  std::vector<std::string> loads;
  ClusterOptions cluster;
  BudgetOptions budget;
  PlanningOptions planning;
  DeltaArguments delta;
  std::string algorithm = "native";
  std::string layers;
  std::string sweep;
  std::string json;
  std::string output;
};

/// `option` plans for one load and even shares, with slots per layer.
void refuse_beside(const PlanArguments& args, const char* option, bool is_one_scenario) {
  const PlanOptions& plan = args.planning.plan;
  const bool is_from = args.delta.is_given();
  const char* const refused = !is_one_scenario                              ? "--loads, --variance"
                              : args.budget.slots()                         ? "--total-slots, --memory-budget"
                              : args.planning.spill_curve                   ? "--spill-curve"
                              : plan.shares == ShareMode::exact             ? "--split exact"
                              : plan.locality == Locality::group_spill      ? "--locality group-spill"
                              : plan.effort != Effort::standard && !is_from ? "--effort"
                              : is_from && algorithms().at(args.algorithm)  ? "--algorithm"
                                                                            : nullptr;
  if (refused != nullptr) usage_error(option, fmt::format("excludes {}", refused));
}

/// A sweep writes no placement, and its slots are those of the sweep.
void check_sweep_usage(const PlanArguments& args) {
  const char* const refused = args.cluster.num_slots()          ? "--slots"
                              : args.budget.slots()             ? "--total-slots, --memory-budget"
                              : args.delta.is_given()           ? "--from"
                              : algorithms().at(args.algorithm) ? "--algorithm"
                              : args.planning.spill_curve       ? "--spill-curve"
                              : args.planning.top_groups        ? "--top-groups"
                              : !args.output.empty()            ? "-o"
                              : args.planning.plan.shares == ShareMode::exact ? "--split: it shows both"
                                                                              : nullptr;
  if (refused != nullptr) usage_error("--sweep-slots", fmt::format("excludes {}", refused));
}

void check_usage(const PlanArguments& args) {
  if (!args.sweep.empty()) {
    check_sweep_usage(args);
  } else if (args.output.empty()) {
    usage_error("--output", "is required");
  } else if (!args.cluster.num_slots() && !args.budget.slots()) {
    usage_error("--slots", "is required, or --slots-per-rank, --rank-slots, --total-slots, --memory-budget");
  }
  const bool is_one_scenario = args.loads.size() == 1 && args.planning.variance.empty();
  if (args.budget.slots() && (!is_one_scenario || args.planning.spill_curve)) {
    usage_error("--total-slots", "plans for one load file, without --variance and --spill-curve");
  }
  if (algorithms().at(args.algorithm)) refuse_beside(args, "--algorithm", is_one_scenario);
  if (args.delta.is_given()) refuse_beside(args, "--from", is_one_scenario);
  args.delta.check_usage(args.json);
  if (args.loads.size() > 1 && !args.planning.variance.empty())
    usage_error("--variance", "needs one load file");
  if (std::count(args.loads.begin(), args.loads.end(), "-") > 1) usage_error("LOADS", "names - twice");
  if (args.budget.expert_bytes && !args.budget.memory_bytes && !args.delta.is_given()) {
    usage_error("--expert-bytes", "needs --memory-budget or --from");
  }
  if (is_same_file(args.output, args.json)) usage_error("--json", "names the same file as -o");
  for (const std::string& loads : args.loads) {
    if (would_replace(args.output, loads)) usage_error("-o", "names a file that is read");
    if (would_replace(args.json, loads)) usage_error("--json", "names a file that is read");
  }
  if (would_replace(args.output, args.planning.variance)) usage_error("-o", "names a file that is read");
  if (would_replace(args.json, args.planning.variance)) usage_error("--json", "names a file that is read");
}

Result<LoadMatrix> read_loads(const PlanArguments& args, const std::string& path) {
  Result<LoadFile> file = read_load_file(path, read_progress_bar(path));
  if (!file) return failure(std::move(file));
  if (args.layers.empty()) return std::move(file->loads);
  return only_layers(file->loads, checked_range(args.layers, file->loads.num_layers()));
}

/// One load scenario per file, all of one size; or draws around one file.
Result<std::vector<LoadMatrix>> read_scenarios(const PlanArguments& args) {
  std::vector<LoadMatrix> scenarios;
  for (const std::string& path : args.loads) {
    Result<LoadMatrix> loads = read_loads(args, path);
    if (!loads) return failure(std::move(loads));
    if (!scenarios.empty() && (loads->num_layers() != scenarios[0].num_layers() ||
                               loads->num_experts() != scenarios[0].num_experts())) {
      return failure(Errc::invalid_argument,
                     fmt::format("{}: {} layers of {} experts, but {} has {} of {}", path,
                                 loads->num_layers(), loads->num_experts(), args.loads[0],
                                 scenarios[0].num_layers(), scenarios[0].num_experts()));
    }
    scenarios.push_back(std::move(*loads));
  }
  if (args.planning.variance.empty()) return scenarios;
  const Result<LoadMatrix> variance = read_loads(args, args.planning.variance);
  if (!variance) return failure(variance.error().code, variance.error().message);
  Result<std::vector<LoadMatrix>> sampled = sample_scenarios(scenarios[0], *variance, args.planning.samples);
  if (!sampled) {
    sampled.error().message = fmt::format("{}: {}", args.planning.variance, sampled.error().message);
  }
  return sampled;
}

/// `work` and the milliseconds it took.
template <class Work>
auto timed(const Work& work, double& ms) {
  const auto start = std::chrono::steady_clock::now();
  auto result = work();
  ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

PlanOutput describe(const PlanArguments& args, const Plan& plan, const Topology& topology, double ms) {
  const PlanSummary summary = summarize(plan);
  PlanOutput output{plan.placement, plan_document(plan, summary, ms), plan_text(plan, summary, topology, ms)};
  output.document["algorithm"] = args.algorithm;
  output.text.insert(0, fmt::format("algorithm  {}\n", args.algorithm));
  return output;
}

Result<Plan> plan_by_algorithm(const PlanArguments& args, std::span<const LoadMatrix> scenarios,
                               const Topology& topology, Executor& executor) {
  const Algorithm algorithm = algorithms().at(args.algorithm);
  if (!algorithm) return plan_rebalance(scenarios, topology, args.planning.plan, executor);
  const LoadMatrix& loads = scenarios.front();
  const LayerRange range = args.layers.empty() ? LayerRange{0, loads.num_layers()}
                                               : checked_range(args.layers, loads.num_layers());
  return plan_rows_like(*algorithm, loads, range, topology, args.planning.plan, executor);
}

/// What follows from the expert groups besides the plan.
Status add_group_facts(const PlanningOptions& options, const Plan& plan,
                       std::span<const LoadMatrix> scenarios, const Topology& topology, Executor& executor,
                       PlanOutput& output) {
  const std::optional<GroupLimit> limit = options.group_limit();
  if (limit) {
    const NodesSummary nodes = summarize_nodes(plan, scenarios[0], topology, *limit);
    output.text += fmt::format("nodes      {:.2f} per token, at most {}\n", nodes.mean, nodes.max);
    output.document["nodes_per_token_mean"] = nodes.mean;
    output.document["nodes_per_token_max"] = nodes.max;
  }
  if (options.spill_curve) {
    const auto curve = compute_spill_curve(scenarios, topology, options.plan, limit, executor);
    if (!curve) return failure(curve.error().code, curve.error().message);
    output.text += spill_text(*curve);
    output.document["spill_curve"] = spill_entries(*curve);
  }
  return {};
}

/// As many slots in each layer as the topology has.
Result<PlanOutput> plan_widths(const PlanArguments& args, std::span<const LoadMatrix> scenarios,
                               const Topology& topology, Executor& executor) {
  double ms = 0.0;
  const auto plan = timed([&] { return plan_by_algorithm(args, scenarios, topology, executor); }, ms);
  if (!plan) return failure(plan.error().code, plan.error().message);
  PlanOutput output = describe(args, *plan, topology, ms);
  if (args.planning.plan.shares == ShareMode::exact) {
    output.text += add_replica_graphs(output.document, *plan, topology);
  }
  Status added = add_group_facts(args.planning, *plan, scenarios, topology, executor, output);
  if (!added) return failure(std::move(added));
  return output;
}

Result<PlanOutput> plan_total(const PlanArguments& args, const LoadMatrix& loads, const Topology& topology,
                              Executor& executor) {
  const std::int64_t slots = *args.budget.slots();
  double ms = 0.0;
  const auto made =
      timed([&] { return plan_slot_budget(loads, topology, slots, args.planning.plan, executor); }, ms);
  if (!made) return failure(made.error().code, made.error().message);
  PlanOutput output = describe(args, made->plan, made->topology, ms);
  add_slot_budget(output.document, *made, slots);
  output.text += slot_budget_text(*made, slots);
  return output;
}

Status write(const PlanArguments& args, const PlanOutput& output) {
  Outputs outputs;
  if (Status s = outputs.add(args.output, format_placement(output.placement)); !s) return s;
  if (Status s = outputs.add(args.json, output.document); !s) return s;
  if (Status s = outputs.commit(); !s) return s;
  const bool is_stdout_taken = args.output == "-" || args.json == "-";
  (is_stdout_taken ? print_talk : print_data)(output.text);
  return {};
}

/// The error names the file.
Result<PlanOutput> make_output(const PlanArguments& args, std::span<const LoadMatrix> scenarios,
                               const Topology& topology, Executor& executor) {
  const LoadMatrix& loads = scenarios.front();
  if (args.delta.is_given()) {
    return plan_from(args.delta, {loads, topology, args.planning.plan, args.budget.expert_bytes}, executor);
  }
  Result<PlanOutput> output = args.budget.slots() ? plan_total(args, loads, topology, executor)
                                                  : plan_widths(args, scenarios, topology, executor);
  if (!output) output.error().message = fmt::format("{}: {}", args.loads[0], output.error().message);
  return output;
}

/// The curve of slots in place of a plan.
Outcome run_sweep(const PlanArguments& args, SlotRange range, std::span<const LoadMatrix> scenarios,
                  const Topology& ranks, Executor& executor) {
  const auto points = sweep_slots(scenarios, ranks, range, args.planning.plan, executor);
  if (!points)
    return failure(points.error().code, fmt::format("{}: {}", args.loads[0], points.error().message));
  Outputs outputs;
  const std::int32_t num_experts = scenarios.front().num_experts();
  if (Status s = outputs.add(args.json, sweep_document(*points, num_experts, scenarios.size())); !s) {
    return failure(std::move(s));
  }
  if (Status s = outputs.commit(); !s) return failure(std::move(s));
  (args.json == "-" ? print_talk : print_data)(sweep_text(*points, scenarios.size()));
  return ExitStatus::ok;
}

Outcome run_plan(const PlanArguments& args) {
  check_usage(args);
  std::optional<SlotRange> sweep;
  if (!args.sweep.empty()) sweep = checked_slot_range(args.sweep);
  Result<std::vector<LoadMatrix>> scenarios = read_scenarios(args);
  if (!scenarios) return failure(std::move(scenarios));
  const std::int32_t slots = args.cluster.num_slots().value_or(*args.cluster.ranks);
  const Topology topology = args.cluster.make_topology(slots);
  args.planning.check(scenarios->size(), scenarios->front().num_experts(), topology);
  TbbExecutor executor(args.planning.threads);
  if (sweep) return run_sweep(args, *sweep, *scenarios, topology, executor);
  Result<PlanOutput> output = make_output(args, *scenarios, topology, executor);
  if (!output) return failure(std::move(output));
  if (Status written = write(args, *output); !written) return failure(std::move(written));
  return ExitStatus::ok;
}

}  // namespace

CLI::App* add_plan_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<PlanArguments>();
  CLI::App* verb =
      app.add_subcommand("plan", "Decide how often each expert is replicated and where each copy lies");
  verb->add_option("LOADS,--loads", args->loads,
                   "JSON file with \"logical_count\", or a trace; - reads standard input; several files are "
                   "load scenarios")
      ->type_name("FILE|-")
      ->required();
  args->cluster.add_to(*verb);
  verb->get_option("--ranks")->required();
  args->cluster.add_rank_options_to(*verb);
  args->budget.add_to(*verb);
  args->delta.add_to(*verb);
  args->planning.add_to(*verb);
  verb->add_option(
          "--algorithm", args->algorithm,
          "native, or as another system would: deepseek, trtllm or vllm; these plan all-zero layers too")
      ->check(CLI::IsMember(&algorithms()))
      ->option_text("NAME");
  verb->add_option("--layers", args->layers, "Plan rows A to B-1 only; the others stay identity, unlisted")
      ->type_name("A:B");
  verb->add_option("--sweep-slots", args->sweep,
                   "Write no placement: show the imbalance for each number of slots, even and exact shares")
      ->type_name("A:B:STEP");
  verb->add_option("--json", args->json,
                   "Write the document trimtab.plan/1, or trimtab.sweep/1; - is standard output")
      ->type_name("FILE|-");
  verb->add_option("-o,--output", args->output,
                   "Write the placement (SGLang --init-expert-location); - is standard output")
      ->type_name("PLACEMENT");
  verb->callback([args, &outcome] { outcome = run_plan(*args); });
  return verb;
}

}  // namespace trimtab
