// SPDX-License-Identifier: Apache-2.0
//
// Against Hall's condition on every set of ranks, and against every split there is in tiny cases.
#include <trimtab/split/split_solver.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
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

Solved solve(SplitSolver& solver, const SplitCase& drawn, SplitDepth depth = SplitDepth::all) {
  Loads assignments(drawn.row.size(), -7);
  const auto result = solver.solve(drawn.loads, assignments, depth);
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
    ASSERT_NO_FATAL_FAILURE(expect_exact(drawn, solve(solver, drawn, SplitDepth::fullest)));
    if (repeat % 2 == 1) {  // equal speeds
      ASSERT_EQ(solved.result.max_load, static_cast<std::int64_t>(std::ceil(best_pressure(drawn) - 1e-9)));
    }
  }
}

/// j / speed for every assignment j of every rank, largest first.
std::vector<double> all_pressures(const SplitCase& drawn, const Loads& loads) {
  std::vector<double> pressures;
  for (Rank rank : ids<Rank>(loads.size())) {
    for (std::int64_t j = 1; j <= loads[rank.index()]; ++j) pressures.push_back(pressure_of(drawn, rank, j));
  }
  std::ranges::sort(pressures, std::greater());
  return pressures;
}

TEST(SplitSolver, IsLexicographicallyBestOfAllSplits) {
  std::mt19937_64 random(5);
  int levels = 0;
  for (int repeat = 0; repeat < 3000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn =
        draw_split_case({.ranks = 4, .slots_per_rank = 3, .load = 4, .has_speeds = repeat % 2 == 0}, random);
    SplitSolver solver = solver_of(drawn);
    const Loads loads = rank_loads_of(drawn, solve(solver, drawn).assignments);
    std::vector<double> best{1e9};
    for (const Loads& other : all_rank_loads(drawn)) best = std::min(best, all_pressures(drawn, other));
    ASSERT_EQ(all_pressures(drawn, loads), best);
    const auto [least, most] = std::ranges::minmax(loads);
    if (most > least + 1) ++levels;
  }
  EXPECT_GT(levels, 1000);  // there was something to refine
}

// The start changes which of the best splits is found, not how good it is.
TEST(SplitSolver, IsExactFromAnyStart) {
  std::mt19937_64 random(6);
  for (int repeat = 0; repeat < 5000; ++repeat) {
    SCOPED_TRACE(repeat);
    SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    SplitSolver solver = solver_of(drawn);
    Loads start = solve(solver, drawn).assignments;
    for (std::int64_t& load : drawn.loads)
      load += load / 4 + std::uniform_int_distribution<int>(0, 2)(random);
    if (repeat % 3 == 0) {
      for (std::int64_t& share : start) share = std::uniform_int_distribution<int>(0, 5)(random);
    }
    Loads assignments = start;
    const auto result = solver.solve_from(assignments, drawn.loads, assignments);  // in place
    ASSERT_NO_FATAL_FAILURE(expect_exact(drawn, {result.value(), assignments}));
    Loads apart(start.size());
    ASSERT_TRUE(solver.solve_from(start, drawn.loads, apart));
    ASSERT_EQ(apart, assignments);
  }
}

TEST(SplitSolver, DependsOnNoEarlierCall) {
  std::mt19937_64 random(7);
  for (int repeat = 0; repeat < 500; ++repeat) {
    SplitCase drawn = draw_split_case({.ranks = 12, .slots_per_rank = 6, .load = 1000}, random);
    SplitSolver solver = solver_of(drawn);
    const Loads first = solve(solver, drawn).assignments;
    SplitCase other = drawn;
    for (std::int64_t& load : other.loads) load = std::uniform_int_distribution<int>(0, 1000)(random);
    static_cast<void>(solve(solver, other));
    static_cast<void>(solver.optimum(std::vector<double>(drawn.loads.size(), 1.5)));
    ASSERT_EQ(solve(solver, drawn).assignments, first);
  }
}

TEST(SplitSolver, OptimumOfFractionalLoadsIsThatOfTheirSets) {
  std::mt19937_64 random(8);
  for (int repeat = 0; repeat < 5000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    SplitSolver solver = solver_of(drawn);
    const double exponent = std::uniform_real_distribution<double>(-300.0, 300.0)(random);
    const double unit = repeat % 5 == 0 ? 1.0 : std::pow(10.0, exponent);
    std::vector<double> loads;
    for (std::int64_t load : drawn.loads) loads.push_back(static_cast<double>(load) * unit);
    const double best = best_pressure(drawn) * unit;
    ASSERT_NEAR(solver.optimum(loads), best, 1e-12 * best);
    if (unit == 1.0) {
      ASSERT_DOUBLE_EQ(solver.optimum(loads), best);
    }
  }
}

// Near 2^53 sums of doubles are no longer exact, and products with the number of ranks do not fit 64 bits.
TEST(SplitSolver, IsExactForLargeLoads) {
  std::mt19937_64 random(9);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    SCOPED_TRACE(repeat);
    SplitCase drawn = draw_split_case({.ranks = 7}, random);
    std::int64_t left = max_split_total;
    for (std::int64_t& load : drawn.loads) {
      load = std::uniform_int_distribution<std::int64_t>(0, left / 2)(random);
      left -= load;
    }
    drawn.loads.back() += left;
    SplitSolver solver = solver_of(drawn);
    const Solved solved = solve(solver, drawn);
    ASSERT_NO_FATAL_FAILURE(expect_conserved(drawn, solved.assignments));
    ASSERT_NO_FATAL_FAILURE(expect_certified(drawn, solved.result));
    ASSERT_DOUBLE_EQ(solved.result.optimum, best_pressure(drawn));
    std::int64_t least = 0;  // ceil(confined / ranks) of the tightest set, in whole numbers
    for (std::uint32_t set = 1; set < 1U << drawn.topology.num_ranks(); ++set) {
      const std::int64_t ranks = std::popcount(set);
      least = std::max(least, (confined_load(drawn, set) + ranks - 1) / ranks);
    }
    ASSERT_EQ(solved.result.max_load, least);
    Loads start(drawn.row.size());  // whose products with the loads round up
    for (std::int64_t& share : start)
      share = std::uniform_int_distribution<std::int64_t>(0, 1LL << 50)(random);
    ASSERT_EQ(solver.solve_from(start, drawn.loads, start)->max_load, least);
    ASSERT_NO_FATAL_FAILURE(expect_conserved(drawn, start));
  }
}

}  // namespace
}  // namespace trimtab::test
