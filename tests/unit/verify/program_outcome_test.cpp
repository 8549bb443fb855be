// SPDX-License-Identifier: Apache-2.0
#include "verify/program_outcome.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

Program program() {
  Program program;
  program.cost.bytes_moved = program.cost.bytes_moved_bound = 100;
  return program;
}

TEST(ProgramOutcome, IsCountedByItsEnding) {
  TrialCounts counts;
  ProgramOutcome outcome{.ending = Ending::committed, .struck = {.all = 2}, .bytes_moved = 100};
  EXPECT_FALSE(tally(outcome, program(), 1, counts));
  outcome.ending = Ending::rolled_back;
  EXPECT_FALSE(tally(outcome, program(), 1, counts));
  outcome.ending = Ending::in_doubt;
  EXPECT_FALSE(tally(outcome, program(), 1, counts));
  EXPECT_EQ(counts.programs, 3U);
  EXPECT_EQ(counts.faults_injected, 6U);
  EXPECT_EQ(counts.committed, 1U);
  EXPECT_EQ(counts.rolled_back, 1U);
  EXPECT_EQ(counts.in_doubt, 1U);
  EXPECT_EQ(counts.bytes_moved, 100U);
  EXPECT_EQ(counts.bytes_lower_bound, 100U);
}

TEST(ProgramOutcome, MovesTheBytesThatTheProgramSays) {
  TrialCounts counts;
  const ProgramOutcome outcome{.ending = Ending::committed, .struck = {}, .bytes_moved = 99};
  EXPECT_EQ(tally(outcome, program(), 1, counts)->check, Check::bytes_moved);
}

TEST(ProgramOutcome, HasNoDamagedPayloadCommitted) {
  TrialCounts counts;
  ProgramOutcome outcome{
      .ending = Ending::committed, .struck = {.all = 1, .corrupted_payloads = 1}, .bytes_moved = 100};
  for (const bool found : {false, true}) {
    outcome.found_corruption = found;
    EXPECT_EQ(tally(outcome, program(), 1, counts)->check, Check::corruption);
  }
  EXPECT_EQ(counts.corrupted, 2U);
  EXPECT_EQ(counts.corrupted_detected, 0U);
}

TEST(ProgramOutcome, FindsADamagedPayloadUnlessTheStepEndedForAnotherReason) {
  TrialCounts counts;
  ProgramOutcome outcome{.ending = Ending::rolled_back, .struck = {.all = 1, .corrupted_payloads = 1}};
  EXPECT_EQ(tally(outcome, program(), 1, counts)->check, Check::corruption);
  outcome.struck.all = 2;
  EXPECT_FALSE(tally(outcome, program(), 1, counts));
  EXPECT_EQ(counts.corrupted, 1U);
  outcome.found_corruption = true;
  EXPECT_FALSE(tally(outcome, program(), 1, counts));
  EXPECT_EQ(counts.corrupted, 2U);
  EXPECT_EQ(counts.corrupted_detected, 1U);
}

TEST(Struck, KnowsWhatMayLeaveARankInDoubt) {
  const auto doubts = [](FaultKind kind, bool is_control) {
    Struck struck;
    struck.add({.kind = kind, .rank = Rank{0}, .is_control = is_control, .peer = {}});
    return struck.may_doubt == 1;
  };
  EXPECT_TRUE(doubts(FaultKind::drop, true));
  EXPECT_FALSE(doubts(FaultKind::drop, false));
  EXPECT_FALSE(doubts(FaultKind::duplicate, true));
  EXPECT_TRUE(doubts(FaultKind::pause, false));
  EXPECT_TRUE(doubts(FaultKind::jump, false));
}

TEST(TrialCounts, KeepTheCaseThatCameNearestToItsBudget) {
  TrialCounts sum;
  TrialCounts half, most, little;
  half.staging_peak_bytes = 500, half.staging_budget_bytes = 1000;
  most.staging_peak_bytes = 64, most.staging_budget_bytes = 65;
  little.staging_peak_bytes = 600, little.staging_budget_bytes = 10000;
  for (const TrialCounts& counts : {half, most, little}) sum += counts;
  EXPECT_EQ(sum.staging_peak_bytes, 64U);
  EXPECT_EQ(sum.staging_budget_bytes, 65U);
}

}  // namespace
}  // namespace trimtab::verify
