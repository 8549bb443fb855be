// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "migrate/staging.hpp"
#include "program_cases.hpp"

namespace trimtab::test {
namespace {

constexpr ProgramCaseLimits few_slots{.layers = 3, .ranks = 3, .slots_per_rank = 3};
constexpr ProgramCaseLimits many_slots{.layers = 2, .ranks = 7, .slots_per_rank = 12};

Program build(const ProgramCase& drawn) {
  Result<Program> program = build_program(drawn.input());
  if (!program) RC_FAIL(program.error().message);
  return std::move(*program);
}

void check_program(const ProgramCase& drawn) {
  const Program program = build(drawn);
  std::size_t num_relays = 0;
  for (const Step& step : program.steps) {
    num_relays += static_cast<std::size_t>(std::ranges::count(step.moves, MoveKind::relay, &Move::kind));
  }
  RC_CLASSIFY(num_relays > 0, "relays");
  RC_CLASSIFY(program.cost.exchanges_forced > 0, "forced exchanges");
  RC_CLASSIFY(program.steps.size() > static_cast<std::size_t>(drawn.from.num_layers()), "cut layers");
  const std::string fault = find_fault(drawn, program);
  if (!fault.empty()) RC_FAIL(fault + "\n" + explain(program, drawn.input()));
}

RC_GTEST_PROP(ProgramProperty, IsRightForFewSlots, ()) { check_program(draw_program_case(few_slots)); }

RC_GTEST_PROP(ProgramProperty, IsRightForManySlots, ()) { check_program(draw_program_case(many_slots)); }

RC_GTEST_PROP(ProgramProperty, OneBundleOfStagingAndOfStallIsEnough, ()) {
  ProgramCase drawn = draw_program_case(many_slots);
  drawn.staging_budget_bytes = 0;
  for (std::size_t bytes : drawn.bundle_bytes)
    drawn.staging_budget_bytes = std::max(drawn.staging_budget_bytes, staged_bytes(bytes));
  drawn.stall_budget_bytes = 0;
  check_program(drawn);
}

RC_GTEST_PROP(ProgramProperty, CutsNoLayerThatFits, ()) {
  const ProgramCase drawn = draw_program_case(few_slots);
  const Program program = build(drawn);
  std::map<LayerId, std::set<std::size_t>> steps_of;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    for (const Move& move : program.steps[i].moves) steps_of[move.layer].insert(i);
    for (const Vacation& vacation : program.steps[i].vacations) steps_of[vacation.layer].insert(i);
  }
  for (const auto& [layer, steps] : steps_of) {
    const std::size_t bytes = drawn.bundle_bytes[layer.index()];
    const std::size_t fills = max_fills(drawn, layer);
    const bool fits = fills * staged_bytes(bytes) <= drawn.staging_budget_bytes &&
                      (fills == 1 || fills * bytes <= drawn.stall_budget_bytes.value_or(fills * bytes));
    RC_ASSERT(!fits || steps.size() == 1);
  }
}

/// Another process has other addresses, not other numbers.
RC_GTEST_PROP(ProgramProperty, IsTheSameOnEveryRank, ()) {
  const ProgramCase here = draw_program_case(many_slots);
  const auto there = std::make_unique<ProgramCase>(here);
  const Program mine = build(here);
  const Program yours = build(*there);
  RC_ASSERT(mine.hash == yours.hash);
  RC_ASSERT(mine.steps.size() == yours.steps.size());
  for (std::size_t i = 0; i < mine.steps.size(); ++i) {
    RC_ASSERT(mine.steps[i].moves == yours.steps[i].moves);
    RC_ASSERT(mine.steps[i].vacations == yours.steps[i].vacations);
  }
}

RC_GTEST_PROP(ProgramProperty, RefusesLessThanOneBundleWithTheNumberThatWouldDo, ()) {
  ProgramCase drawn = draw_program_case(few_slots);
  std::size_t need = 0;
  for (LayerId layer : ids<LayerId>(drawn.from.num_layers())) {
    if (max_fills(drawn, layer) > 0) need = std::max(need, staged_bytes(drawn.bundle_bytes[layer.index()]));
  }
  RC_PRE(need > 0);
  drawn.staging_budget_bytes = need - 1;
  const Result<Program> refused = build_program(drawn.input());
  RC_ASSERT(!refused.has_value());
  RC_ASSERT(refused.error().code == Errc::infeasible);
  RC_ASSERT(refused.error().message.find("needs " + std::to_string(need) + " bytes") != std::string::npos);
  drawn.staging_budget_bytes = need;
  RC_ASSERT(build_program(drawn.input()).has_value());
}

}  // namespace
}  // namespace trimtab::test
