// SPDX-License-Identifier: Apache-2.0
//
// Against Hall's condition on every set of ranks, and against every split there is in tiny cases.
#include <trimtab/split/split_solver.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "split_oracle.hpp"

namespace trimtab::test {
namespace {

using Loads = std::vector<std::int64_t>;

struct Solved {
  SplitResult result;
  Loads assignments;
};

double pressure_of(const SplitCase& drawn, Rank rank, std::int64_t load) {
  return static_cast<double>(load) / drawn.topology.rank(rank).speed;
}

/// Every expert's load is on its live slots, whole, and evenly on those of one rank.
void expect_conserved(const SplitCase& drawn, const Loads& assignments) {
  for (ExpertId expert : ids<ExpertId>(drawn.num_experts)) {
    std::int64_t sum = 0;
    for (SlotId slot : ids<SlotId>(drawn.row.size())) {
      if (drawn.row[slot.index()] == expert) sum += assignments[slot.index()];
      for (SlotId other : drawn.topology.slots_of(drawn.topology.rank_of(slot))) {
        if (drawn.row[slot.index()] != expert || drawn.row[other.index()] != expert) continue;
        ASSERT_LE(std::abs(assignments[slot.index()] - assignments[other.index()]), 1);
      }
    }
    ASSERT_EQ(sum, drawn.loads[expert.index()]) << "expert " << expert.value();
  }
  for (SlotId slot : ids<SlotId>(drawn.row.size())) {
    ASSERT_GE(assignments[slot.index()], 0);
    if (drawn.row[slot.index()] == no_expert || !drawn.topology.is_alive(slot)) {
      ASSERT_EQ(assignments[slot.index()], 0) << "slot " << slot.value();
    }
  }
}

/// The tight set proves the optimum.
void expect_certified(const SplitCase& drawn, const SplitResult& result) {
  ASSERT_FALSE(result.tight_ranks.empty());
  ASSERT_TRUE(std::ranges::is_sorted(result.tight_ranks));
  ASSERT_TRUE(std::ranges::is_sorted(result.tight_experts));
  std::uint32_t set = 0;
  double speed = 0.0;
  for (Rank rank : result.tight_ranks) {
    set |= 1U << rank.index();
    speed += drawn.topology.rank(rank).speed;
  }
  std::int64_t load = 0;
  for (ExpertId expert : result.tight_experts) load += drawn.loads[expert.index()];
  ASSERT_EQ(load, confined_load(drawn, set));
  ASSERT_DOUBLE_EQ(result.optimum, static_cast<double>(load) / speed);
}

void expect_exact(const SplitCase& drawn, const Solved& solved) {
  ASSERT_NO_FATAL_FAILURE(expect_conserved(drawn, solved.assignments));
  ASSERT_NO_FATAL_FAILURE(expect_certified(drawn, solved.result));
  const Loads loads = rank_loads_of(drawn, solved.assignments);
  double most = 0.0;
  for (Rank rank : ids<Rank>(loads.size()))
    most = std::max(most, pressure_of(drawn, rank, loads[rank.index()]));
  ASSERT_DOUBLE_EQ(solved.result.max_pressure, most);
  ASSERT_EQ(solved.result.max_load, *std::ranges::max_element(loads));
  ASSERT_DOUBLE_EQ(solved.result.optimum, best_pressure(drawn));
  ASSERT_DOUBLE_EQ(solved.result.max_pressure, best_whole_pressure(drawn));
}

Solved solve(SplitSolver& solver, const SplitCase& drawn) {
  Loads assignments(drawn.row.size(), -7);
  const auto result = solver.solve(drawn.loads, assignments);
  return {result.value(), std::move(assignments)};
}

SplitSolver solver_of(const SplitCase& drawn) {
  return SplitSolver::make(drawn.row, drawn.num_experts, drawn.topology).value();
}

TEST(SplitSolver, IsExactOnTwentyThousandCases) {
  std::mt19937_64 random(4);
  for (int repeat = 0; repeat < 20000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn =
        draw_split_case({.ranks = 7, .slots_per_rank = 4, .load = 30, .has_speeds = repeat % 2 == 0}, random);
    SplitSolver solver = solver_of(drawn);
    const Solved solved = solve(solver, drawn);
    ASSERT_NO_FATAL_FAILURE(expect_exact(drawn, solved));
    if (drawn.topology.rank(Rank{0}).speed == 1.0 && repeat % 2 == 1) {
      ASSERT_EQ(solved.result.max_load, static_cast<std::int64_t>(std::ceil(solved.result.optimum - 1e-9)));
    }
  }
}

}  // namespace
}  // namespace trimtab::test
