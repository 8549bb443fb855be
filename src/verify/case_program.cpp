// SPDX-License-Identifier: Apache-2.0
#include "verify/case_program.hpp"

#include <fmt/format.h>

namespace trimtab::verify {
namespace {

/// What slots hold after `step`, written down again: `apply` would stop the process where an expert has no
/// slot.
Result<Placement> after(const Placement& placement, const Step& step) {
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    const auto row = placement.layer(layer);
    map.insert(map.end(), row.begin(), row.end());
  }
  const auto width = static_cast<std::size_t>(placement.num_slots());
  for (const Move& move : step.moves)
    map[move.layer.index() * width + move.destination.index()] = move.expert;
  for (const Vacation& vacated : step.vacations)
    map[vacated.layer.index() * width + vacated.slot.index()] = no_expert;
  return Placement::make(placement.num_layers(), placement.num_slots(), placement.num_experts(),
                         std::move(map));
}

}  // namespace

Result<Program> make_program(const Case& drawn, Epoch epoch, const Placement& from, const Placement& to,
                             const Story& story) {
  return make_program(drawn, drawn.topology, epoch, from, to, story);
}

Result<Program> make_program(const Case& drawn, const Topology& topology, Epoch epoch, const Placement& from,
                             const Placement& to, const Story& story) {
  const std::vector<std::size_t> bundle_bytes = drawn.bundle_bytes();
  const ProgramInput input{.epoch = epoch,
                           .from = from,
                           .to = to,
                           .topology = topology,
                           .bundle_bytes = bundle_bytes,
                           .staging_budget_bytes = drawn.engine.staging_budget_bytes,
                           .stall_budget_bytes = drawn.stall_budget_bytes,
                           .has_source = drawn.has_source};
  Result<Program> program = build_program(input);
  if (program && story) story(explain(*program, input));
  return program;
}

std::optional<Violation> check_program(const Case& drawn, const Program& program, const Placement& from,
                                       const Placement& to) {
  const auto violation = [&](Check check, std::string what) {
    return Violation{check, drawn.seed, fmt::format("epoch {}: {}", program.epoch.value(), what)};
  };
  Placement now = from;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    Result<Placement> next = after(now, program.steps[i]);
    if (!next) return violation(Check::coverage, fmt::format("after step {}: {}", i, next.error().message));
    now = std::move(*next);
  }
  if (now != to)
    return violation(Check::coverage, "the program does not end in the placement that was asked for");
  if (program.staging_bytes > drawn.engine.staging_budget_bytes) {
    return violation(Check::staging, fmt::format("the program needs {} bytes of staging > budget {}",
                                                 program.staging_bytes, drawn.engine.staging_budget_bytes));
  }
  const ProgramCost& cost = program.cost;
  const bool is_bounded = cost.exchanges_forced == 0;
  if (cost.bytes_moved > cost.bytes_moved_bound && is_bounded) {
    return violation(Check::bytes_moved,
                     fmt::format("{} bytes across ranks, and no exchange was forced; {} are enough",
                                 cost.bytes_moved, cost.bytes_moved_bound));
  }
  return std::nullopt;
}

}  // namespace trimtab::verify
