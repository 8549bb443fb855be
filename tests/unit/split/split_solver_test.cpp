// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split_solver.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Loads = std::vector<std::int64_t>;

std::vector<ExpertId> row_of(std::initializer_list<int> experts) {
  std::vector<ExpertId> row;
  for (int expert : experts) row.push_back(ExpertId{expert});
  return row;
}

/// One rank for each entry: its slots.
Topology topology_of(std::initializer_list<int> slots) {
  std::vector<RankInfo> ranks;
  for (int count : slots) ranks.push_back({NodeId{0}, count});
  return Topology::make(ranks).value();
}

/// Experts 0 and 2 on one rank, expert 1 on both.
SplitSolver small_solver() { return SplitSolver::make(row_of({0, 1, 1, 2}), 3, topology_of({2, 2})).value(); }

TEST(SplitSolver, FillsTheEmptierRank) {
  SplitSolver solver = small_solver();
  Loads assignments(4);
  const auto result = solver.solve(Loads{2, 10, 5}, assignments).value();
  EXPECT_THAT(assignments, ElementsAre(2, 7, 3, 5));
  EXPECT_EQ(result.max_load, 9);
  EXPECT_DOUBLE_EQ(result.optimum, 8.5);
  EXPECT_THAT(result.tight_ranks, ElementsAre(Rank{0}, Rank{1}));
  EXPECT_THAT(result.tight_experts, ElementsAre(ExpertId{0}, ExpertId{1}, ExpertId{2}));
}

TEST(SplitSolver, SaysWhatHoldsTheOptimumUp) {
  SplitSolver solver = small_solver();
  Loads assignments(4);
  const auto result = solver.solve(Loads{2, 10, 50}, assignments).value();
  EXPECT_THAT(assignments, ElementsAre(2, 10, 0, 50));
  EXPECT_EQ(result.max_load, 50);
  EXPECT_THAT(result.tight_ranks, ElementsAre(Rank{1}));
  EXPECT_THAT(result.tight_experts, ElementsAre(ExpertId{2}));
}

TEST(SplitSolver, WeighsRanksBySpeed) {
  const auto topology = Topology::make({{NodeId{0}, 1, 3.0, true}, {NodeId{0}, 1, 1.0, true}}).value();
  SplitSolver solver = SplitSolver::make(row_of({0, 0}), 1, topology).value();
  Loads assignments(2);
  EXPECT_DOUBLE_EQ(solver.solve(Loads{8}, assignments)->optimum, 2.0);
  EXPECT_THAT(assignments, ElementsAre(6, 2));
}

TEST(SplitSolver, SharesEvenlyOnOneRank) {
  SplitSolver solver = SplitSolver::make(row_of({0, 0, 0, 1}), 2, topology_of({2, 2})).value();
  Loads assignments(4);
  ASSERT_TRUE(solver.solve(Loads{9, 4}, assignments));
  EXPECT_THAT(assignments, ElementsAre(4, 3, 2, 4));
}

// vllm-project/vllm#39942: ranks that are known dead must be left out.
TEST(SplitSolver, LeavesVacantAndDeadSlotsEmpty) {
  const auto topology = Topology::make({{NodeId{0}, 2}, {NodeId{0}, 2, 1.0, false}, {NodeId{0}, 1}}).value();
  SplitSolver solver = SplitSolver::make(row_of({0, -1, 0, 1, 1}), 2, topology).value();
  Loads assignments(5, 7);
  ASSERT_TRUE(solver.solve(Loads{3, 4}, assignments));
  EXPECT_THAT(assignments, ElementsAre(3, 0, 0, 0, 4));
}

TEST(SplitSolver, TakesZeroLoads) {
  SplitSolver solver = small_solver();
  Loads assignments(4, 7);
  const auto result = solver.solve(Loads{0, 0, 0}, assignments).value();
  EXPECT_THAT(assignments, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(result.optimum, 0.0);
  EXPECT_THAT(result.tight_experts, IsEmpty());
  EXPECT_EQ(solver.optimum(std::vector<double>(3, 0.0)), 0.0);
}

TEST(SplitSolver, StartsFromEarlierShares) {
  SplitSolver solver = SplitSolver::make(row_of({0, 1, 0, 1}), 2, topology_of({2, 2})).value();
  Loads assignments(4);
  ASSERT_TRUE(solver.solve_from(Loads{1, 0, 0, 1}, Loads{6, 6}, assignments));
  EXPECT_THAT(assignments, ElementsAre(6, 0, 0, 6));
}

TEST(SplitSolver, RefusesBadLoadsAndLeavesOutputsAlone) {
  SplitSolver solver = small_solver();
  Loads assignments(4, 7);
  const auto message = [&](const Loads& loads) { return solver.solve(loads, assignments).error().message; };
  EXPECT_THAT(message({1, -5, 2}), HasSubstr("expert 1: load -5"));
  EXPECT_THAT(message({1, max_split_total, 2}), HasSubstr("9007199254740992"));
  EXPECT_THAT(message({1, INT64_MAX, INT64_MAX}), HasSubstr("expert 1: with its load 9223372036854775807"));
  EXPECT_THAT(message({1, 2}), HasSubstr("2 loads for 3 experts"));
  EXPECT_THAT(solver.solve(Loads{1, 2, 3}, std::span(assignments).first(3)).error().message,
              HasSubstr("room for 3 assignments, 4 slots"));
  EXPECT_THAT(solver.solve_from(Loads{0, 0, -1, 0}, Loads{1, 2, 3}, assignments).error().message,
              HasSubstr("slot 2: -1"));
  EXPECT_THAT(assignments, ElementsAre(7, 7, 7, 7));
}

TEST(SplitSolver, TakesTheLargestSum) {
  SplitSolver solver = small_solver();
  Loads assignments(4);
  const auto result = solver.solve(Loads{0, max_split_total, 0}, assignments).value();
  EXPECT_EQ(result.max_load, max_split_total / 2);
}

// 2049 times 2^53 is 2^53 again in 64 bits.
TEST(SplitSolver, RefusesASumThatWrapsRound) {
  constexpr std::int32_t num_experts = 2049;
  std::vector<ExpertId> row;
  for (ExpertId expert : ids<ExpertId>(num_experts)) row.push_back(expert);
  SplitSolver solver = SplitSolver::make(row, num_experts, topology_of({num_experts})).value();
  Loads assignments(row.size());
  const auto result = solver.solve(Loads(row.size(), max_split_total), assignments);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("expert 1:"));
}

TEST(SplitSolver, RefusesBadPlacements) {
  const Topology topology = topology_of({2, 2});
  const auto message = [&](std::vector<ExpertId> row, int experts) {
    return SplitSolver::make(row, experts, topology).error().message;
  };
  EXPECT_THAT(message(row_of({0, 1, 1}), 2), HasSubstr("3 slots placed, the topology has 4"));
  EXPECT_THAT(message(row_of({0, 1, 2, 0}), 2), HasSubstr("slot 2: expert 2 is not in 0..1"));
  EXPECT_THAT(message(row_of({0, 1, -2, 0}), 2), HasSubstr("slot 2: expert -2"));
  EXPECT_THAT(message(row_of({0, 0, 0, 0}), 2), HasSubstr("expert 1 has no slot"));
  EXPECT_THAT(message({}, 0), HasSubstr("0 experts"));
  const auto dead = Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}}).value();
  EXPECT_EQ(SplitSolver::make(row_of({0, 1}), 2, dead).error().code, Errc::infeasible);
}

}  // namespace
}  // namespace trimtab::test
