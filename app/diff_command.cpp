// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/outputs.hpp"
#include "io/load_file.hpp"
#include "io/placement_file.hpp"
#include "report/diff_report.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace trimtab {
namespace {

struct DiffArguments {
  std::string before;
  std::string after;
  std::string loads;
  std::int32_t ranks = 1;
  std::int32_t nodes = 1;
  std::optional<std::int32_t> old_ranks;
  std::optional<std::uint64_t> expert_bytes;
  bool verbose = false;
  std::size_t limit = 20;
  std::string json;
};

Result<Placement> read_placement(const std::string& path, std::optional<std::int32_t> num_experts) {
  Result<JsonText> text = JsonText::read(path);
  if (!text) return failure(std::move(text));
  return parse_placement(*text, num_experts);
}

Topology make_ranks(const char* option, std::int32_t ranks, std::int32_t nodes, const Placement& placement) {
  if (nodes > ranks) usage_error("--nodes", fmt::format("{} nodes > {} ranks", nodes, ranks));
  Result<Topology> topology = Topology::make_uniform(ranks, nodes, placement.num_slots());
  if (!topology) usage_error(option, topology.error().message);
  return *topology;
}

struct Inputs {
  Placement before;
  Placement after;
  std::optional<LoadMatrix> loads;
};

Status check_loads(const DiffArguments& args, const LoadMatrix& loads, const Placement& placement) {
  if (loads.num_layers() == placement.num_layers()) return {};
  return failure(Errc::invalid_argument, fmt::format("{}: {} layers, but {} has {}", args.loads,
                                                     loads.num_layers(), args.after, placement.num_layers()));
}

Result<Inputs> read_inputs(const DiffArguments& args) {
  std::optional<LoadMatrix> loads;
  if (!args.loads.empty()) {
    Result<LoadFile> file = read_load_file(args.loads, read_progress_bar(args.loads));
    if (!file) return failure(std::move(file));
    loads = std::move(file->loads);
  }
  std::optional<std::int32_t> num_experts;
  if (loads) num_experts = loads->num_experts();
  Result<Placement> before = read_placement(args.before, num_experts);
  if (!before) return failure(std::move(before));
  Result<Placement> after = read_placement(args.after, num_experts);
  if (!after) return failure(std::move(after));
  if (loads) {
    if (Status ok = check_loads(args, *loads, *after); !ok) return failure(std::move(ok));
  }
  return Inputs{*std::move(before), *std::move(after), std::move(loads)};
}

Outcome run_diff(const DiffArguments& args) {
  for (const std::string* input : {&args.before, &args.after, &args.loads}) {
    if (would_replace(args.json, *input)) usage_error("--json", "names a file that is read");
  }
  Result<Inputs> inputs = read_inputs(args);
  if (!inputs) return failure(std::move(inputs));
  const Topology topology = make_ranks("--ranks", args.ranks, args.nodes, inputs->after);
  const Topology old_topology =
      make_ranks("--old-ranks", args.old_ranks.value_or(args.ranks), 1, inputs->before);
  auto layers = diff_placements(inputs->before, old_topology, inputs->after, topology);
  if (!layers) {
    layers.error().message = fmt::format("{}, {}: {}", args.before, args.after, layers.error().message);
    return failure(std::move(layers));
  }
  DiffReport report{*std::move(layers), inputs->after.num_slots(), {}, {}, {}};
  if (inputs->loads) {
    add_imbalance(report, *inputs->loads, inputs->before, old_topology, inputs->after, topology);
  }
  Outputs outputs;
  if (Status s = outputs.add(args.json, diff_document(report, args.expert_bytes)); !s) {
    return failure(std::move(s));
  }
  if (Status s = outputs.commit(); !s) return failure(std::move(s));
  if (args.json != "-") print_data(diff_text(report, args.expert_bytes, args.verbose, args.limit));
  return ExitStatus::ok;
}

void add_ranks(CLI::App& verb, DiffArguments& args) {
  verb.add_option("--ranks", args.ranks, "Ranks (devices) the experts are spread over")
      ->check(in_range(1, 1 << 16))
      ->type_name("N")
      ->required();
  verb.add_option("--nodes", args.nodes, "Nodes the ranks lie on: node(r) = floor(r * nodes / ranks)")
      ->check(in_range(1, 1 << 16))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--old-ranks", args.old_ranks, "Ranks of the old placement, when they are not --ranks")
      ->check(in_range(1, 1 << 16))
      ->type_name("N");
}

}  // namespace

CLI::App* add_diff_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<DiffArguments>();
  CLI::App* verb = app.add_subcommand("diff", "Show what changing from one placement to another would move");
  verb->add_option("OLD", args->before, "The placement in use; - reads standard input")
      ->type_name("PLACEMENT|-")
      ->required();
  verb->add_option("NEW", args->after, "The one to change to")->type_name("PLACEMENT")->required();
  add_ranks(*verb, *args);
  verb->add_option("--loads", args->loads, "Show the imbalance of both under these loads")->type_name("FILE");
  verb->add_option("--expert-bytes", args->expert_bytes, "Bytes of one expert of one layer")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("BYTES");
  verb->add_flag("--verbose", args->verbose, "List the slots that change");
  verb->add_option("--limit", args->limit, "With --verbose, at most N slots of a layer")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--json", args->json,
                   "Write the document trimtab.diff/1; - is standard output, in place of the table")
      ->type_name("FILE|-");
  verb->callback([args, &outcome] { outcome = run_diff(*args); });
  return verb;
}

}  // namespace trimtab
