// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/layer_range.hpp"
#include "app/outputs.hpp"
#include "app/planning_options.hpp"
#include "app/tbb_executor.hpp"
#include "io/load_file.hpp"
#include "io/placement_file.hpp"
#include "report/plan_report.hpp"
#include "report/spill_report.hpp"

#include <trimtab/plan/planner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

struct PlanArguments {
  std::vector<std::string> loads;
  ClusterOptions cluster;
  PlanningOptions planning;
  std::string layers;
  std::string json;
  std::string output;
};

// The planner keeps a layer without load as identity and leaves it out of its averages: what is wanted of
// layers outside the range.
Result<LoadMatrix> only_layers(const LoadMatrix& loads, LayerRange range) {
  std::vector<double> kept;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const auto row = loads.layer(layer);
    const bool is_inside = range.first <= layer.value() && layer.value() < range.last;
    kept.insert(kept.end(), row.begin(), row.end());
    if (!is_inside) std::fill(kept.end() - std::ssize(row), kept.end(), 0.0);
  }
  return LoadMatrix::make(loads.num_layers(), loads.num_experts(), std::move(kept));
}

void check_usage(const PlanArguments& args) {
  if (!args.cluster.num_slots()) usage_error("--slots", "is required, or --slots-per-rank or --rank-slots");
  if (std::count(args.loads.begin(), args.loads.end(), "-") > 1) usage_error("LOADS", "names - twice");
  if (is_same_file(args.output, args.json)) usage_error("--json", "names the same file as -o");
  for (const std::string& loads : args.loads) {
    if (would_replace(args.output, loads)) usage_error("-o", "names a file that is read");
    if (would_replace(args.json, loads)) usage_error("--json", "names a file that is read");
  }
}

Result<LoadMatrix> read_loads(const PlanArguments& args, const std::string& path) {
  Result<LoadFile> file = read_load_file(path, read_progress_bar(path));
  if (!file) return failure(std::move(file));
  if (args.layers.empty()) return std::move(file->loads);
  return only_layers(file->loads, checked_range(args.layers, file->loads.num_layers()));
}

/// One load scenario per file, all of one size.
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
  return scenarios;
}

struct TimedPlan {
  Plan plan;
  double ms;
};

Result<TimedPlan> make_plan(const PlanArguments& args, std::span<const LoadMatrix> scenarios,
                            const Topology& topology) {
  TbbExecutor executor(args.planning.threads);
  const auto start = std::chrono::steady_clock::now();
  Result<Plan> plan = plan_rebalance(scenarios, topology, args.planning.plan, executor);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (!plan) return failure(std::move(plan));
  return TimedPlan{std::move(*plan), time.count()};
}

/// Text and keys beyond the plan itself.
struct Extras {
  std::string text;
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
};

Result<Extras> make_extras(const PlanArguments& args, const Plan& plan, std::span<const LoadMatrix> scenarios,
                           const Topology& topology) {
  Extras extras;
  const std::optional<GroupLimit> limit = args.planning.group_limit();
  if (limit) {
    const NodesSummary nodes = summarize_nodes(plan, scenarios[0], topology, *limit);
    extras.text += fmt::format("nodes      {:.2f} per token, at most {}\n", nodes.mean, nodes.max);
    extras.keys["nodes_per_token_mean"] = nodes.mean;
    extras.keys["nodes_per_token_max"] = nodes.max;
  }
  if (args.planning.spill_curve) {
    TbbExecutor executor(args.planning.threads);
    const auto curve = compute_spill_curve(scenarios, topology, args.planning.plan, limit, executor);
    if (!curve) return failure(curve.error().code, curve.error().message);
    extras.text += spill_text(*curve);
    extras.keys["spill_curve"] = spill_entries(*curve);
  }
  return extras;
}

Status write_plan(const PlanArguments& args, const TimedPlan& made, std::span<const LoadMatrix> scenarios,
                  const Topology& topology) {
  const PlanSummary summary = summarize(made.plan);
  Result<Extras> extras = make_extras(args, made.plan, scenarios, topology);
  if (!extras) return failure(std::move(extras));
  nlohmann::ordered_json document = plan_document(made.plan, summary, made.ms);
  document.update(extras->keys);
  Outputs outputs;
  if (Status s = outputs.add(args.output, format_placement(made.plan.placement)); !s) return s;
  if (Status s = outputs.add(args.json, document); !s) return s;
  if (Status s = outputs.commit(); !s) return s;
  const bool is_stdout_taken = args.output == "-" || args.json == "-";
  (is_stdout_taken ? print_talk
                   : print_data)(plan_text(made.plan, summary, topology, made.ms) + extras->text);
  return {};
}

Outcome run_plan(const PlanArguments& args) {
  check_usage(args);
  Result<std::vector<LoadMatrix>> scenarios = read_scenarios(args);
  if (!scenarios) return failure(std::move(scenarios));
  const Topology topology = args.cluster.make_topology(*args.cluster.num_slots());
  args.planning.check(scenarios->size(), scenarios->front().num_experts(), topology);
  Result<TimedPlan> made = make_plan(args, *scenarios, topology);
  if (!made) {
    made.error().message = fmt::format("{}: {}", args.loads[0], made.error().message);
    return failure(std::move(made));
  }
  if (Status written = write_plan(args, *made, *scenarios, topology); !written)
    return failure(std::move(written));
  return ExitStatus::ok;
}

}  // namespace

CLI::App* add_plan_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<PlanArguments>();
  CLI::App* verb =
      app.add_subcommand("plan", "Decide how often each expert is replicated and where each copy lies");
  verb->add_option(
          "LOADS,--loads", args->loads,
          "JSON file with \"logical_count\"; - reads standard input; several files are load scenarios")
      ->type_name("FILE|-")
      ->required();
  args->cluster.add_to(*verb);
  verb->get_option("--ranks")->required();
  args->cluster.add_rank_options_to(*verb);
  args->planning.add_to(*verb);
  verb->add_option("--layers", args->layers, "Plan rows A to B-1 only; the others stay identity, unlisted")
      ->type_name("A:B");
  verb->add_option("--json", args->json, "Write the document trimtab.plan/1; - is standard output")
      ->type_name("FILE|-");
  verb->add_option("-o,--output", args->output,
                   "Write the placement (SGLang --init-expert-location); - is standard output")
      ->required()
      ->type_name("PLACEMENT");
  verb->callback([args, &outcome] { outcome = run_plan(*args); });
  return verb;
}

}  // namespace trimtab
