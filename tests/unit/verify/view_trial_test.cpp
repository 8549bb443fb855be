// SPDX-License-Identifier: Apache-2.0
#include "verify/view_trial.hpp"
#include "verify/campaign.hpp"
#include "verify/draw_deaths.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trimtab::verify {
namespace {

CampaignReport play(FaultKinds faults, std::size_t num_cases) {
  CampaignOptions options{.cases = {}, .seed = 1, .num_cases = num_cases};
  options.cases.faults = std::move(faults);
  SerialExecutor executor;
  return run_campaign(options, executor).value();
}

std::string first_violation(const CampaignReport& report) {
  return report.violations.empty()
             ? ""
             : to_string(report.violations[0]) + " seed " + std::to_string(report.violations[0].seed);
}

class Deaths : public testing::TestWithParam<FaultKind> {};

TEST_P(Deaths, LeaveSurvivorsInOneState) {
  const CampaignReport report = play({GetParam()}, 150);
  EXPECT_EQ(first_violation(report), "");
  EXPECT_GT(report.counts.faults_injected, 75U);
  EXPECT_EQ(report.counts.faults_injected, report.counts.kills + report.counts.stops + report.counts.cuts);
  EXPECT_GT(report.counts.views, 50U);
  EXPECT_GT(report.counts.in_doubt_resolved, 20U);
  EXPECT_GT(report.counts.committed, 100U);
  EXPECT_EQ(report.counts.programs,
            report.counts.committed + report.counts.rolled_back + report.counts.in_doubt);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Deaths, testing::Values(FaultKind::kill, FaultKind::stop, FaultKind::cut),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(Deaths, StrikeBesideEachOther) {
  const CampaignReport report = play({FaultKind::kill, FaultKind::stop, FaultKind::cut}, 150);
  EXPECT_EQ(first_violation(report), "");
  EXPECT_GT(std::min({report.counts.kills, report.counts.stops, report.counts.cuts}), 20U);
}

// A rank that slept through two views missed how the second one ended, and nobody told it again.
TEST(Deaths, OfSeedsThatWereHardHaveNoViolation) {
  CaseOptions options;
  options.faults = {FaultKind::stop};
  for (const std::uint64_t seed : {1083U, 1270U}) {
    const TrialReport report = run_view_trial(draw_case(seed, options).value(), std::nullopt, {}).value();
    EXPECT_EQ(report.violation ? to_string(*report.violation) : "", "") << "seed " << seed;
  }
}

CaseFault make_fault(FaultKind kind, Rank rank) {
  CaseFault fault;
  fault.kind = kind;
  fault.rank = rank;
  return fault;
}

Case with_kill(std::uint64_t transition) {
  CaseOptions options;
  options.ranks = 4;
  options.faults = {FaultKind::kill};
  Case drawn = draw_case(3, options).value();
  drawn.faults.resize(1);
  drawn.faults[0].rank = Rank{0};
  drawn.faults[0].transition = transition;
  return drawn;
}

TEST(Deaths, MeetTheCoordinatorAtEveryChangeOfItsState) {
  std::uint64_t transition = 1;
  std::uint64_t kills = 1;
  for (; kills > 0 && transition < 100; ++transition) {
    const TrialReport report = run_view_trial(with_kill(transition), std::nullopt, {}).value();
    EXPECT_EQ(report.violation ? to_string(*report.violation) : "", "") << "transition " << transition;
    kills = report.counts.kills;
  }
  EXPECT_GT(transition, 8U);
}

TEST(Deaths, AreDrawnForHalfOfTheCasesAndLeaveTheOthersAsTheyWere) {
  CaseOptions without;
  without.faults = without_deaths(without.faults);
  std::size_t num_deadly = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Case drawn = draw_case(seed, {}).value();
    const Case usual = draw_case(seed, without).value();
    EXPECT_FALSE(usual.has_deaths);
    num_deadly += drawn.has_deaths ? 1 : 0;
    if (!drawn.has_deaths) {
      EXPECT_EQ(describe(drawn), describe(usual));
    }
  }
  EXPECT_GT(num_deadly, 70U);
  EXPECT_LT(num_deadly, 130U);
}

TEST(Deaths, SpareEveryExpertOnceWhereThereIsNoSource) {
  CaseOptions options;
  options.faults = {FaultKind::kill};
  std::size_t num_doubled = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Case drawn = draw_case(seed, options).value();
    if (drawn.has_source) continue;
    ++num_doubled;
    for (LayerId layer : ids<LayerId>(drawn.first.num_layers())) {
      for (ExpertId expert : ids<ExpertId>(drawn.first.num_experts())) {
        const auto slots = drawn.first.replicas(layer, expert);
        const auto is_elsewhere = [&](SlotId slot) {
          return drawn.topology.rank_of(slot) != drawn.topology.rank_of(slots.front());
        };
        EXPECT_TRUE(std::ranges::any_of(slots, is_elsewhere)) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(num_doubled, 20U);
}

TEST(Cut, SeversSidesOrOneLinkInBothDirections) {
  CaseFault cut = make_fault(FaultKind::cut, Rank{0});
  cut.side_of_rank = {Rank{0}, Rank{2}};
  EXPECT_TRUE(severs(cut, Rank{0}, Rank{1}));
  EXPECT_TRUE(severs(cut, Rank{3}, Rank{2}));
  EXPECT_FALSE(severs(cut, Rank{0}, Rank{2}));
  EXPECT_FALSE(severs(cut, Rank{1}, Rank{3}));
  cut.peer = Rank{3};
  EXPECT_TRUE(severs(cut, Rank{3}, Rank{0}));
  EXPECT_FALSE(severs(cut, Rank{0}, Rank{1}));
}

}  // namespace
}  // namespace trimtab::verify
