// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/program.hpp>

#include "migrate/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <vector>

namespace trimtab {
namespace {

using Text = std::back_insert_iterator<std::string>;

std::string_view name_of(MoveKind kind) {
  switch (kind) {
    case MoveKind::transfer:
      return "transfer";
    case MoveKind::local_copy:
      return "copy";
    case MoveKind::reuse:
      return "reuse of what is staged";
    case MoveKind::relay:
      return "relay of what is staged";
    case MoveKind::displaced:
      return "what the slot gave up";
    case MoveKind::recover:
      return "read from the source";
  }
  return "";
}

struct Totals {
  std::array<std::size_t, 6> by_kind{};
  std::size_t num_vacations = 0;

  void add(const Step& step) {
    for (const Move& move : step.moves) ++by_kind[static_cast<std::size_t>(move.kind)];
    num_vacations += step.vacations.size();
  }

  [[nodiscard]] std::string text() const {
    const auto count = [&](MoveKind kind) { return by_kind[static_cast<std::size_t>(kind)]; };
    return fmt::format("transfers {}, relays {}, copies {}, reuses {}, exchanges {}, vacated {}",
                       count(MoveKind::transfer), count(MoveKind::relay),
                       count(MoveKind::local_copy) - count(MoveKind::displaced), count(MoveKind::reuse),
                       count(MoveKind::displaced), num_vacations);
  }
};

void print_head(Text out, const Program& program, const ProgramInput& input) {
  Totals totals;
  for (const Step& step : program.steps) totals.add(step);
  const ProgramCost& cost = program.cost;
  fmt::format_to(out, "program {:016x}: epoch {} to {} in {} steps\n", program.hash, program.epoch.value(),
                 program.epoch.value() + program.steps.size(), program.steps.size());
  fmt::format_to(out, "  {}\n", totals.text());
  fmt::format_to(out, "  bytes across ranks {} (lower bound {}), of these across nodes {} (lower bound {})\n",
                 cost.bytes_moved, cost.bytes_moved_bound, cost.bytes_across_nodes,
                 cost.bytes_across_nodes_bound);
  fmt::format_to(out, "  bytes inside ranks {}, of these {} for exchanges that the budgets force\n",
                 cost.bytes_copied, cost.bytes_extra);
  fmt::format_to(out, "  staging per rank at most {} of {} bytes\n", program.staging_bytes,
                 input.staging_budget_bytes);
  const std::string budget =
      input.stall_budget_bytes ? fmt::format("of {} bytes", *input.stall_budget_bytes) : "bytes, no limit";
  fmt::format_to(out, "  exchanged per rank and step at most {} {}\n", program.stall_bytes, budget);
}

/// What a step takes of one rank.
struct Use {
  std::size_t staging = 0;
  std::size_t exchanged = 0;
  std::size_t sent = 0;
  std::size_t received = 0;
};

std::vector<Use> uses_of(const Step& step, const ProgramInput& input) {
  std::vector<Use> uses(static_cast<std::size_t>(input.topology.num_ranks()));
  for (const Move& move : step.moves) {
    const std::size_t bytes = input.bundle_bytes[move.layer.index()];
    Use& use = uses[input.topology.rank_of(move.destination).index()];
    use.exchanged += bytes;
    if (move.kind != MoveKind::displaced) use.staging += staged_bytes(bytes);
    if (!is_remote(move.kind)) continue;
    use.received += bytes;
    uses[input.topology.rank_of(move.source).index()].sent += bytes;
  }
  return uses;
}

void print_uses(Text out, const Step& step, const ProgramInput& input) {
  const std::vector<Use> uses = uses_of(step, input);
  for (Rank rank : ids<Rank>(uses.size())) {
    const Use& use = uses[rank.index()];
    if (use.exchanged == 0 && use.sent == 0) continue;
    fmt::format_to(out, "  rank {}: staging {}, exchanged {}, sent {}, received {} bytes\n", rank.value(),
                   use.staging, use.exchanged, use.sent, use.received);
  }
}

void print_move(Text out, const Move& move, const Topology& topology) {
  fmt::format_to(out, "    layer {}, expert {}: rank {} slot {} -> rank {} slot {} ({})\n",
                 move.layer.value(), move.expert.value(), topology.rank_of(move.source).value(),
                 move.source.value(), topology.rank_of(move.destination).value(), move.destination.value(),
                 name_of(move.kind));
}

void print_moves(Text out, const Step& step, const Topology& topology) {
  std::vector<Move> remote;
  std::ranges::copy_if(step.moves, std::back_inserter(remote),
                       [](const Move& move) { return is_remote(move.kind); });
  std::ranges::stable_sort(remote, {}, &Move::round);
  std::int32_t round = -1;
  for (const Move& move : remote) {
    if (move.round != round) fmt::format_to(out, "  round {}\n", round = move.round);
    print_move(out, move, topology);
  }
  if (remote.size() < step.moves.size()) fmt::format_to(out, "  inside ranks\n");
  for (const Move& move : step.moves) {
    if (!is_remote(move.kind)) print_move(out, move, topology);
  }
  for (const Vacation& vacation : step.vacations) {
    fmt::format_to(out, "  layer {}: slot {} becomes vacant\n", vacation.layer.value(),
                   vacation.slot.value());
  }
}

}  // namespace

std::string explain(const Program& program, const ProgramInput& input) {
  std::string text;
  const Text out(text);
  print_head(out, program, input);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    Totals totals;
    totals.add(step);
    fmt::format_to(out, "step {} of {}, to epoch {}: {}, rounds {}\n", i + 1, program.steps.size(),
                   program.epoch.value() + i + 1, totals.text(), step.num_rounds);
    print_uses(out, step, input);
    print_moves(out, step, input.topology);
  }
  return text;
}

}  // namespace trimtab
