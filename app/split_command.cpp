// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/layer_range.hpp"
#include "app/outputs.hpp"
#include "app/placement_input.hpp"
#include "app/tbb_executor.hpp"
#include "io/load_file.hpp"
#include "report/split_report.hpp"

#include <trimtab/core/noise_floor.hpp>
#include <trimtab/plan/planner.hpp>
#include <trimtab/split/split_plan.hpp>
#include <trimtab/split/split_solver.hpp>

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

struct SplitArguments {
  std::string loads;
  std::string placement;
  ClusterOptions cluster;
  std::string layers;
  std::int32_t groups = 1;
  Locality locality = Locality::automatic;
  std::int64_t min_assignments = 0;
  std::int32_t top_k = 8;
  std::int32_t batch_tokens = 4096;
  std::optional<std::size_t> top;
  bool with_shares = false;
  std::string json;
};

void check_usage(const SplitArguments& args) {
  if (args.loads == "-" && args.placement == "-") usage_error("--placement", "names - too");
  for (const std::string* input : {&args.loads, &args.placement}) {
    if (would_replace(args.json, *input)) usage_error("--json", "names a file that is read");
  }
  if (args.with_shares && args.json.empty()) usage_error("--shares", "needs --json");
}

Result<LoadMatrix> read_loads(const SplitArguments& args) {
  Result<LoadFile> file = read_load_file(args.loads, read_progress_bar(args.loads));
  if (!file) return failure(std::move(file));
  if (args.layers.empty()) return std::move(file->loads);
  return only_layers(file->loads, checked_range(args.layers, file->loads.num_layers()));
}

/// Of one solution for each layer that carries load, by solvers that have seen no loads yet.
double median_solve_us(const LoadMatrix& loads, const Placement& placement, const Topology& topology) {
  std::vector<double> times;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    Result<SplitSolver> solver = SplitSolver::make(placement.layer(layer), placement.num_experts(), topology);
    if (loads.is_dense(layer) || !solver) continue;
    const auto row = loads.layer(layer);
    const auto begun = std::chrono::steady_clock::now();
    static_cast<void>(solver->optimum(row));
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count());
  }
  if (times.empty()) return 0.0;
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// Groups whose tokens stay in the node that owns them, or 1.
std::int32_t strict_groups(const SplitArguments& args, const Topology& topology, std::int32_t num_experts) {
  if (num_experts % args.groups != 0) {
    usage_error("--groups", fmt::format("{} groups do not divide {} experts", args.groups, num_experts));
  }
  const bool divides = args.groups > 1 && args.groups % topology.num_nodes() == 0;
  if (args.locality == Locality::group_strict && !divides) {
    usage_error("--locality",
                fmt::format("group-strict needs nodes that divide the groups: {} nodes, {} groups",
                            topology.num_nodes(), args.groups));
  }
  return divides && args.locality != Locality::none ? args.groups : 1;
}

Result<SplitReport> make_report(const SplitArguments& args, const LoadMatrix& loads,
                                const Placement& placement, const Topology& topology) {
  TbbExecutor executor(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  SplitOptions options;
  options.shared_tokens = 1.0 / args.top_k;
  options.num_groups = strict_groups(args, topology, loads.num_experts());
  options.min_assignments = args.min_assignments;
  Result<SplitPlan> plan = solve_split(loads, placement, topology, options, executor);
  if (!plan) return failure(plan.error().code, fmt::format("{}: {}", args.placement, plan.error().message));
  std::int64_t live_ranks = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) live_ranks += topology.is_alive(rank) ? 1 : 0;
  const std::int64_t batch = std::int64_t{args.batch_tokens} * args.top_k * live_ranks;
  return SplitReport{.plan = *std::move(plan),
                     .noise_floor = noise_floor(static_cast<double>(batch), topology),
                     .batch_assignments = batch,
                     .solve_us_median = median_solve_us(loads, placement, topology)};
}

Outcome run_split(const SplitArguments& args) {
  check_usage(args);
  const Result<LoadMatrix> loads = read_loads(args);
  if (!loads) return tl::unexpected(loads.error());
  const Result<Placement> placement = read_placement_for(args.placement, *loads, args.loads);
  if (!placement) return tl::unexpected(placement.error());
  const Result<SplitReport> report =
      make_report(args, *loads, *placement, make_topology_for(args.cluster, *placement));
  if (!report) return tl::unexpected(report.error());
  Outputs outputs;
  if (Status s = outputs.add(args.json, split_document(*report, args.top, args.with_shares)); !s) {
    return failure(std::move(s));
  }
  if (Status s = outputs.commit(); !s) return failure(std::move(s));
  if (args.json != "-") print_data(split_text(*report, args.top));
  return ExitStatus::ok;
}

}  // namespace

CLI::App* add_split_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<SplitArguments>();
  CLI::App* verb = app.add_subcommand(
      "split", "Show how even the ranks of a placement get when replicas share tokens as well as they can");
  verb->add_option("LOADS", args->loads,
                   "JSON file with \"logical_count\", or a trace; - reads standard input")
      ->type_name("FILE|-")
      ->required();
  verb->add_option("--placement", args->placement, "The placement whose replicas share the load")
      ->type_name("FILE")
      ->required();
  args->cluster.add_to(*verb);
  verb->get_option("--ranks")->required();
  args->cluster.add_rank_options_to(*verb);
  verb->add_option("--layers", args->layers, "Rows A to B-1 only")->type_name("A:B");
  verb->add_option("--groups", args->groups,
                   "Expert groups: where nodes divide them, tokens stay in the node that owns their group")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  static const std::map<std::string, Locality> localities{
      {"automatic", Locality::automatic}, {"none", Locality::none}, {"group-strict", Locality::group_strict}};
  verb->add_option_function<std::string>(
          "--locality", [args](const std::string& name) { args->locality = localities.at(name); },
          "automatic, none or group-strict: whether tokens may leave that node")
      ->check(CLI::IsMember(&localities))
      ->option_text("NAME");
  verb->add_option("--min-assignments", args->min_assignments,
                   "Give no replica that is used at all fewer assignments than this")
      ->check(in_range(0, 1 << 30))
      ->type_name("N");
  verb->add_option(
          "--top-k", args->top_k,
          "Routed experts per token: there is one token of the shared expert for so many assignments")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--batch-tokens", args->batch_tokens, "Tokens per rank of the batch for the noise floor")
      ->check(in_range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--top", args->top, "List only the N worst layers, worst first")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  verb->add_flag("--shares", args->with_shares, "Tell the assignments of every slot in the document");
  verb->add_option("--json", args->json,
                   "Write the document trimtab.split/1; - is standard output, in place of the table")
      ->type_name("FILE|-");
  verb->callback([args, &outcome] { outcome = run_split(*args); });
  return verb;
}

}  // namespace trimtab
