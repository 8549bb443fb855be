// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/inspect_traces.hpp"
#include "app/outputs.hpp"
#include "app/placement_input.hpp"
#include "io/input_kind.hpp"
#include "io/load_file.hpp"
#include "io/placement_file.hpp"
#include "report/load_report.hpp"
#include "report/placement_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace trimtab {
namespace {

/// The table, or with --json - the document in its place.
Status write_report(const InspectArguments& args, const nlohmann::ordered_json& document,
                    const std::string& text) {
  Outputs outputs;
  if (Status s = outputs.add(args.json, document); !s) return s;
  if (Status s = outputs.commit(); !s) return s;
  if (args.json != "-") print_data(text);
  return {};
}

Result<Placement> read_or_make_placement(const InspectArguments& args, const LoadMatrix& loads) {
  if (args.placement.empty()) {
    const std::int32_t slots = args.cluster.num_slots().value_or(loads.num_experts());
    return Placement::identity(loads.num_layers(), slots, loads.num_experts());
  }
  return read_placement_for(args.placement, loads, args.inputs.front());
}

std::string headline(const InspectArguments& args, const LoadFile& file, const LoadReport& report) {
  return fmt::format("{}: {} layers ({} dense), {} experts, {} step{}{}\n", args.inputs.front(),
                     file.loads.num_layers(), report.dense_layers.size(), report.num_experts,
                     report.num_steps, report.num_steps == 1 ? "" : "s",
                     !args.cluster.ranks      ? ""
                     : args.placement.empty() ? "; ranks under the identity placement"
                                              : "; ranks under " + args.placement);
}

Outcome inspect_loads_file(const InspectArguments& args, const JsonText& text) {
  Result<LoadFile> file = parse_loads(text);
  if (!file) return failure(std::move(file));
  LoadReport report;
  if (args.cluster.ranks) {
    Result<Placement> placement = read_or_make_placement(args, file->loads);
    if (!placement) return failure(std::move(placement));
    const Topology topology = make_topology_for(args.cluster, *placement);
    report = inspect_loads(file->loads, file->num_steps, Spread{*placement, topology});
  } else {
    report = inspect_loads(file->loads, file->num_steps, std::nullopt);
  }
  Status written = write_report(args, load_document(report, args.top),
                                headline(args, *file, report) + load_text(report, args.top));
  if (!written) return failure(std::move(written));
  return ExitStatus::ok;
}

Outcome inspect_placement_file(const InspectArguments& args, const JsonText& text) {
  if (args.top) usage_error("--top", "applies to loads, and this file is a placement");
  if (!args.placement.empty())
    usage_error("--placement", "applies to loads, and the first file is a placement");
  Result<Placement> placement = parse_placement(text);
  if (!placement) return failure(std::move(placement));
  std::optional<Topology> topology;
  if (args.cluster.ranks) topology = make_topology_for(args.cluster, *placement);
  const auto layers = inspect_placement(*placement, topology ? &*topology : nullptr);
  const std::string head =
      fmt::format("{}: {} layers, {} slots, {} experts\n", args.inputs.front(), placement->num_layers(),
                  placement->num_slots(), placement->num_experts());
  Status written = write_report(args, placement_document(*placement, layers), head + placement_text(layers));
  if (!written) return failure(std::move(written));
  return ExitStatus::ok;
}

/// Loads or a placement.
Outcome inspect_text(const InspectArguments& args) {
  const std::string& input = args.inputs.front();
  args.traces.refuse();
  if (!args.cluster.ranks && (args.cluster.num_slots() || !args.placement.empty())) {
    usage_error("--ranks", "is required with --slots and --placement");
  }
  Result<JsonText> text = JsonText::read(input, read_progress_bar(input));
  if (!text) return failure(std::move(text));
  return find_input_kind(*text) == InputKind::placement ? inspect_placement_file(args, *text)
                                                        : inspect_loads_file(args, *text);
}

Outcome run_inspect(const InspectArguments& args) {
  for (const std::string& input : args.inputs) {
    if (would_replace(args.json, input)) usage_error("--json", "names the file that is read");
  }
  if (would_replace(args.json, args.placement)) usage_error("--json", "names the file that is read");
  const auto other = std::ranges::find_if_not(args.inputs, is_safetensors);
  if (other == args.inputs.end()) return inspect_traces(args);
  if (args.inputs.size() == 1) return inspect_text(args);
  std::error_code error;
  if (!std::filesystem::exists(*other, error)) return inspect_traces(args);  // Which says so.
  usage_error("FILE", fmt::format("several files are compared when all are traces, and {} is none", *other));
}

}  // namespace

CLI::App* add_inspect_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<InspectArguments>();
  CLI::App* verb =
      app.add_subcommand("inspect", "Show what is in loads, a placement or traces, layer by layer");
  verb->add_option(
          "FILE", args->inputs,
          "Loads, a placement, or one or several traces, told by the content; - reads standard input")
      ->type_name("FILE|-")
      ->required();
  args->cluster.add_to(*verb);
  verb->add_option("--placement", args->placement,
                   "Spread the loads by this placement instead of the identity")
      ->type_name("FILE");
  verb->add_option("--top", args->top, "List only the N worst layers, worst first")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  args->traces.add_to(*verb);
  verb->add_option("--json", args->json,
                   "Write the document trimtab.inspect/1; - is standard output, in place of the table")
      ->type_name("FILE|-");
  verb->callback([args, &outcome] { outcome = run_inspect(*args); });
  return verb;
}

}  // namespace trimtab
