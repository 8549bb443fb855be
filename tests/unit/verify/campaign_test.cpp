// SPDX-License-Identifier: Apache-2.0
#include "verify/campaign.hpp"

#include "migrate/stage_pieces.hpp"
#include "support/threaded_executor.hpp"
#include "verify/trial.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

std::string first_violation(const CampaignReport& report) {
  return report.violations.empty()
             ? ""
             : to_string(report.violations[0]) + " seed " + std::to_string(report.violations[0].seed);
}

CampaignReport play(const CampaignOptions& options) {
  SerialExecutor executor;
  return run_campaign(options, executor).value();
}

class Campaign : public testing::TestWithParam<LayoutFamily> {};

TEST_P(Campaign, HasNoViolationUnderAllFaults) {
  CampaignOptions options{.cases = {}, .seed = 1, .num_cases = 150};
  options.cases.layout = GetParam();
  const CampaignReport report = play(options);
  EXPECT_EQ(first_violation(report), "");
  const TrialCounts& counts = report.counts;
  EXPECT_GE(counts.programs, 150U);
  EXPECT_GT(counts.faults_injected, 50U);
  EXPECT_GT(counts.committed, 100U);
  EXPECT_GT(counts.rolled_back, 10U);
  EXPECT_GT(counts.corrupted, 0U);
  EXPECT_EQ(counts.corrupted_detected, counts.corrupted);
  EXPECT_EQ(counts.bytes_moved, counts.bytes_lower_bound);
  EXPECT_LE(counts.staging_peak_bytes, counts.staging_budget_bytes);
  EXPECT_GT(counts.staging_peak_bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Campaign,
                         testing::Values(LayoutFamily::dense, LayoutFamily::strided, LayoutFamily::nz));

TEST(CampaignWithoutFaults, CommitsEveryProgram) {
  CampaignOptions options{.cases = {}, .seed = 9, .num_cases = 100};
  options.cases.faults.clear();
  const CampaignReport report = play(options);
  EXPECT_EQ(first_violation(report), "");
  EXPECT_EQ(report.counts.committed, report.counts.programs);
  EXPECT_EQ(report.counts.faults_injected, 0U);
}

/// Seeds whose first layer has bundles that are staged in several pieces.
std::vector<std::uint64_t> seeds_of_large_bundles(std::size_t count) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seeds.size() < count; ++seed) {
    if (draw_case(seed, {}).value().bundle_bytes()[0] > piece_bytes) seeds.push_back(seed);
  }
  return seeds;
}

TEST(CampaignOfLargeBundles, HasNoViolationInPieces) {
  TrialCounts counts;
  for (const std::uint64_t seed : seeds_of_large_bundles(6)) {
    const TrialReport report = run_trial(draw_case(seed, {}).value(), std::nullopt).value();
    EXPECT_FALSE(report.violation) << to_string(*report.violation) << " seed " << seed;
    counts.committed += report.counts.committed;
    counts.faults_injected += report.counts.faults_injected;
  }
  EXPECT_GT(counts.committed, 3U);
  EXPECT_GT(counts.faults_injected, 0U);
}

TEST(CampaignOfManyRanks, HasNoViolation) {
  CampaignOptions options{.cases = {}, .seed = 3, .num_cases = 2};
  options.cases.ranks = 64;
  options.cases.nodes = 8;
  EXPECT_EQ(first_violation(play(options)), "");
}

TEST(CampaignOfOneRank, HasNoViolation) {
  CampaignOptions options{.cases = {}, .seed = 3, .num_cases = 40};
  options.cases.ranks = 1;
  EXPECT_EQ(first_violation(play(options)), "");
}

TEST(CampaignReport, DependsNotOnWhoPlays) {
  const CampaignOptions options{.cases = {}, .seed = 77, .num_cases = 60};
  const CampaignReport one = play(options);
  test::ThreadedExecutor executor(4);
  const CampaignReport four = run_campaign(options, executor).value();
  EXPECT_EQ(one.counts, four.counts);
}

TEST(CampaignOptions, AreRefusedBeforeAnythingMoves) {
  CampaignOptions options{.cases = {}, .seed = 1, .num_cases = 20};
  options.cases.staging_budget_bytes = 200;  // Enough for some bundles only.
  SerialExecutor executor;
  EXPECT_EQ(check_options(options, executor).error().code, Errc::infeasible);
  options.cases.staging_budget_bytes = 1 << 20;
  EXPECT_TRUE(check_options(options, executor));
}

TEST(Trial, GoesTheSameWayAgain) {
  std::string all;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Case drawn = draw_case(seed, {}).value();
    std::string first;
    std::string second;
    ASSERT_TRUE(run_trial(drawn, std::nullopt, [&](const std::string& line) { first += line; }));
    ASSERT_TRUE(run_trial(drawn, std::nullopt, [&](const std::string& line) { second += line; }));
    EXPECT_EQ(first, second);
    all += first;
  }
  EXPECT_NE(all.find("committing -> committed (published), epoch 2"), std::string::npos);
}

// What went wrong with `trimtab verify` itself: two corruptions of one message cancelled out, leftovers of a
// pause were taken for a dead engine, and an attempt of a coordinator that had given up ended the next
// program.
TEST(Trial, OfSeedsThatWereHardHasNoViolation) {
  for (const std::uint64_t seed : {2772U, 280U, 493U, 8574U}) {
    const TrialReport report = run_trial(draw_case(seed, {}).value()).value();
    EXPECT_EQ(report.violation ? to_string(*report.violation) : "", "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace trimtab::verify
