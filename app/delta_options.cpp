// SPDX-License-Identifier: Apache-2.0
#include "app/delta_options.hpp"

#include "app/commands.hpp"
#include "app/outputs.hpp"
#include "io/placement_file.hpp"

#include <fmt/format.h>

namespace trimtab {
void DeltaArguments::add_to(CLI::App& verb) {
  auto* base = verb.add_option("--from", from, "Plan few moves away from this placement, which is in use")
                   ->type_name("PLACEMENT");
  const auto add = [&](CLI::Option* option) { option->needs(base); };
  add(verb.add_option("--from-ranks", from_ranks, "Ranks it was made for, when they are not --ranks")
          ->check(in_range(1, 1 << 16))
          ->type_name("N"));
  add(verb.add_option("--max-moves", max_moves, "At most N moves in each layer")
          ->check(in_range(0, 1 << 20))
          ->type_name("N"));
  auto* budget = verb.add_option("--move-budget", move_budget_bytes,
                                 "At most so many bytes over all layers, spent where they buy most: 20GB")
                     ->transform(CLI::AsSizeValue(true).description(""))
                     ->type_name("BYTES");
  add(budget);
  budget->needs("--expert-bytes");
  add(verb.add_option("--within", within,
                      "Enough when the imbalance is within this share of a full re-plan's")
          ->check(CLI::Range(0.0, 1e6).description(""))
          ->type_name("EPS"));
  add(verb.add_flag("--curve", show_curve, "Show what the imbalance would be for each number of moves"));
}

void DeltaArguments::check_usage(const std::string& json) const {
  if (would_replace(json, from)) usage_error("--json", "names the file that is read");
}

Result<Placement> DeltaArguments::read_current(const LoadMatrix& loads, const Topology& topology) const {
  Result<JsonText> text = JsonText::read(from);
  if (!text) return failure(std::move(text));
  Result<Placement> current = parse_placement(*text, loads.num_experts());
  if (!current) return current;
  if (current->num_layers() != loads.num_layers()) {
    return failure(Errc::invalid_argument, fmt::format("{}: {} layers, but the loads have {}", from,
                                                       current->num_layers(), loads.num_layers()));
  }
  if (!from_ranks && current->num_slots() != topology.num_slots()) {
    usage_error("--from-ranks", fmt::format("is required: {} has {} slots, the plan {}", from,
                                            current->num_slots(), topology.num_slots()));
  }
  return current;
}

DeltaOptions DeltaArguments::options(const Placement& current,
                                     std::optional<std::uint64_t> expert_bytes) const {
  DeltaOptions made{.max_moves = max_moves,
                    .move_budget_bytes = move_budget_bytes,
                    .expert_bytes = expert_bytes.value_or(0),
                    .within = within,
                    .fine_curve = show_curve,
                    .from = {}};
  if (!from_ranks) return made;
  // Nodes of the ranks before do not matter: what can be received from whom is told by the new topology.
  Result<Topology> before = Topology::make_uniform(*from_ranks, 1, current.num_slots());
  if (!before) usage_error("--from-ranks", before.error().message);
  made.from = *std::move(before);
  return made;
}

}  // namespace trimtab
