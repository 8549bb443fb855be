// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/delta_options.hpp"
#include "app/layer_range.hpp"
#include "app/outputs.hpp"
#include "app/plan_from.hpp"
#include "app/tbb_executor.hpp"
#include "io/load_file.hpp"
#include "io/placement_file.hpp"
#include "report/plan_report.hpp"

#include <trimtab/plan/planner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

struct PlanArguments {
  std::string loads;
  ClusterOptions cluster;
  PlanOptions options;
  DeltaArguments delta;
  std::optional<std::uint64_t> expert_bytes;
  std::string layers;
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
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
  if (!args.cluster.num_slots()) usage_error("--slots", "is required, or --slots-per-rank");
  if (is_same_file(args.output, args.json)) usage_error("--json", "names the same file as -o");
  if (would_replace(args.output, args.loads)) usage_error("-o", "names the file that is read");
  if (would_replace(args.json, args.loads)) usage_error("--json", "names the file that is read");
  args.delta.check_usage(args.json);
}

void check_groups(const PlanOptions& options, std::int32_t num_experts, const Topology& topology) {
  if (num_experts % options.num_groups != 0) {
    usage_error("--groups",
                fmt::format("{} groups do not divide {} experts", options.num_groups, num_experts));
  }
  if (options.locality == Locality::group_strict && options.num_groups % topology.num_nodes() != 0) {
    usage_error("--locality",
                fmt::format("group-strict needs nodes that divide the groups: {} nodes, {} groups",
                            topology.num_nodes(), options.num_groups));
  }
}

Result<LoadMatrix> read_loads(const PlanArguments& args) {
  Result<LoadFile> file = read_load_file(args.loads, read_progress_bar(args.loads));
  if (!file) return failure(std::move(file));
  if (args.layers.empty()) return std::move(file->loads);
  return only_layers(file->loads, checked_range(args.layers, file->loads.num_layers()));
}

struct TimedPlan {
  Plan plan;
  double ms;
};

Result<TimedPlan> make_plan(const PlanArguments& args, const LoadMatrix& loads, const Topology& topology) {
  TbbExecutor executor(args.threads);
  const auto start = std::chrono::steady_clock::now();
  Result<Plan> plan = plan_rebalance(loads, topology, args.options, executor);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (!plan) return failure(std::move(plan));
  return TimedPlan{std::move(*plan), time.count()};
}

Status write(const PlanArguments& args, const Placement& placement, const nlohmann::ordered_json& document,
             const std::string& text) {
  Outputs outputs;
  if (Status s = outputs.add(args.output, format_placement(placement)); !s) return s;
  if (Status s = outputs.add(args.json, document); !s) return s;
  if (Status s = outputs.commit(); !s) return s;
  const bool is_stdout_taken = args.output == "-" || args.json == "-";
  (is_stdout_taken ? print_talk : print_data)(text);
  return {};
}

Status write_plan(const PlanArguments& args, const TimedPlan& made, const Topology& topology) {
  const PlanSummary summary = summarize(made.plan);
  return write(args, made.plan.placement, plan_document(made.plan, summary, made.ms),
               plan_text(made.plan, summary, topology, made.ms));
}

Outcome run_delta(const PlanArguments& args, const LoadMatrix& loads, const Topology& topology) {
  TbbExecutor executor(args.threads);
  Result<DeltaOutput> made =
      plan_from(args.delta, {loads, topology, args.options, args.expert_bytes}, executor);
  if (!made) return failure(std::move(made));
  Status written = write(args, made->placement, made->document, made->text);
  if (!written) return failure(std::move(written));
  return ExitStatus::ok;
}

Outcome run_plan(const PlanArguments& args) {
  check_usage(args);
  Result<LoadMatrix> loads = read_loads(args);
  if (!loads) return failure(std::move(loads));
  const Topology topology = args.cluster.make_topology(*args.cluster.num_slots());
  check_groups(args.options, loads->num_experts(), topology);
  if (args.delta.is_given()) return run_delta(args, *loads, topology);
  Result<TimedPlan> made = make_plan(args, *loads, topology);
  if (!made) {
    made.error().message = fmt::format("{}: {}", args.loads, made.error().message);
    return failure(std::move(made));
  }
  if (Status written = write_plan(args, *made, topology); !written) return failure(std::move(written));
  return ExitStatus::ok;
}

void add_planning_options(CLI::App& verb, PlanArguments& args) {
  static const std::map<std::string, Locality> localities{
      {"automatic", Locality::automatic}, {"none", Locality::none}, {"group-strict", Locality::group_strict}};
  verb.add_option("--groups", args.options.num_groups,
                  "Expert groups of group-limited routing, equally large")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option_function<std::string>(
          "--locality", [&args](const std::string& name) { args.options.locality = localities.at(name); },
          "automatic, none or group-strict: whether a group's replicas stay inside one node")
      ->check(CLI::IsMember(&localities))
      ->option_text("NAME");
  verb.add_option("--layers", args.layers, "Plan rows A to B-1 only; the others stay identity, unlisted")
      ->type_name("A:B");
  verb.add_flag("--allow-vacant", args.options.allow_vacant,
                "Leave a slot vacant (-1) rather than put an expert on a rank twice");
  verb.add_option("--threads", args.threads, "Threads to plan with; the plan does not depend on it")
      ->check(in_range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace

CLI::App* add_plan_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<PlanArguments>();
  CLI::App* verb =
      app.add_subcommand("plan", "Decide how often each expert is replicated and where each copy lies");
  verb->add_option("LOADS", args->loads, "JSON file with \"logical_count\"; - reads standard input")
      ->type_name("FILE|-")
      ->required();
  args->cluster.add_to(*verb);
  verb->get_option("--ranks")->required();
  add_planning_options(*verb, *args);
  verb->add_option("--expert-bytes", args->expert_bytes, "Bytes of one expert in one layer: 44040192, 42MiB")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("BYTES");
  args->delta.add_to(*verb);
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
