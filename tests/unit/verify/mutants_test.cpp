// SPDX-License-Identifier: Apache-2.0
#include "verify/campaign.hpp"
#include "verify/trial.hpp"

#include <gtest/gtest.h>

#include <map>
#include <ostream>

namespace trimtab {
/// For the names of tests.
static void PrintTo(Mutant value, std::ostream* out) { *out << to_string(value); }
}  // namespace trimtab

namespace trimtab::verify {
namespace {

class Mutants : public testing::TestWithParam<Mutant> {};

/// The first case that catches the mutant.
std::optional<Violation> first_catch(Mutant mutant) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const TrialReport report = run_trial(draw_case(seed, {}).value(), mutant).value();
    if (report.violation) return report.violation;
  }
  return std::nullopt;
}

TEST_P(Mutants, AreCaughtAndTheCaseReplays) {
  const auto caught = first_catch(GetParam());
  ASSERT_TRUE(caught) << to_string(GetParam());
  const Case drawn = draw_case(caught->seed, {}).value();
  for (int i = 0; i < 2; ++i) {
    const TrialReport again = run_trial(drawn, GetParam()).value();
    ASSERT_TRUE(again.violation);
    EXPECT_EQ(to_string(*again.violation), to_string(*caught));
  }
  EXPECT_FALSE(run_trial(drawn)->violation) << "it is the mutant, not the case";
}

// Each by a check that is meant for it, so that a broken check does not hide behind another.
TEST_P(Mutants, AreCaughtByTheirCheck) {
  const std::map<Mutant, Check> checks{{Mutant::wrong_scale, Check::served_bytes},
                                       {Mutant::table_before_weights, Check::served_bytes},
                                       {Mutant::overwrite_before_send, Check::served_bytes},
                                       {Mutant::skipped_wait, Check::served_bytes},
                                       {Mutant::stale_map, Check::counts},
                                       {Mutant::neighbour_rewritten, Check::unnamed_bytes},
                                       {Mutant::vote_ignored, Check::doubt},
                                       {Mutant::stale_program_resumed, Check::step_of_program},
                                       {Mutant::new_storage, Check::served_bytes}};
  EXPECT_EQ(first_catch(GetParam())->check, checks.at(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, testing::ValuesIn(all_mutants));

TEST(MutantReports, SayAfterHowManyCases) {
  SerialExecutor executor;
  CampaignOptions many{.cases = {}, .seed = 1, .num_cases = 100};
  const std::vector<MutantReport> reports = run_mutants(many, all_mutants, executor).value();
  ASSERT_EQ(reports.size(), std::size(all_mutants));
  for (const MutantReport& report : reports) {
    ASSERT_TRUE(report.violation) << to_string(report.mutant);
    EXPECT_EQ(report.violation->seed, report.num_cases) << "cases of consecutive seeds from 1";
  }
}

TEST(MutantReports, SayWhatWasNotCaught) {
  SerialExecutor executor;
  CampaignOptions harmless{.cases = {}, .seed = 1, .num_cases = 3};
  harmless.cases.faults.clear();  // No vote is a no, so none can be ignored.
  const std::vector<MutantReport> reports = run_mutants(harmless, all_mutants, executor).value();
  for (const MutantReport& report : reports) {
    if (report.mutant != Mutant::vote_ignored) continue;
    EXPECT_FALSE(report.violation);
    EXPECT_EQ(report.num_cases, 3U);
  }
}

}  // namespace
}  // namespace trimtab::verify
