// SPDX-License-Identifier: Apache-2.0
#include "verify/case_program.hpp"

#include <fmt/format.h>

namespace trimtab::verify {

Result<Program> make_program(const Case& drawn, Epoch epoch, const Placement& from, const Placement& to,
                             const Story& story) {
  const std::vector<std::size_t> bundle_bytes = drawn.bundle_bytes();
  const ProgramInput input{.epoch = epoch,
                           .from = from,
                           .to = to,
                           .topology = drawn.topology,
                           .bundle_bytes = bundle_bytes,
                           .staging_budget_bytes = drawn.engine.staging_budget_bytes,
                           .stall_budget_bytes = drawn.stall_budget_bytes};
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
    now = apply(now, program.steps[i]);
    if (Status live = check_live(now, drawn.topology); !live)
      return violation(Check::coverage, fmt::format("after step {}: {}", i, live.error().message));
  }
  if (now != to)
    return violation(Check::coverage, "the program does not end in the placement that was asked for");
  if (program.staging_bytes > drawn.engine.staging_budget_bytes) {
    return violation(Check::staging, fmt::format("the program needs {} bytes of staging > budget {}",
                                                 program.staging_bytes, drawn.engine.staging_budget_bytes));
  }
  const ProgramCost& cost = program.cost;
  if (cost.bytes_moved > cost.bytes_moved_bound && cost.exchanges_forced == 0) {
    return violation(Check::bytes_moved,
                     fmt::format("{} bytes across ranks, and no exchange was forced; {} are enough",
                                 cost.bytes_moved, cost.bytes_moved_bound));
  }
  return std::nullopt;
}

}  // namespace trimtab::verify
