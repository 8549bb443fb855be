// SPDX-License-Identifier: Apache-2.0
#include "verify/survivors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CaseFault make_fault(FaultKind kind, Rank rank) {
  CaseFault fault;
  fault.kind = kind;
  fault.rank = rank;
  return fault;
}

Case four_ranks(const CaseFault& fault) {
  CaseOptions options;
  options.ranks = 4;
  Case drawn = draw_case(1, options).value();
  drawn.heartbeat.period = std::chrono::milliseconds(100);
  drawn.faults = {fault};
  return drawn;
}

TEST(ExpectedFate, OfAKillIsThatAllOthersServe) {
  const Fate fate = expected_fate(four_ranks(make_fault(FaultKind::kill, Rank{2})), {true});
  EXPECT_THAT(fate.serve, ElementsAre(Rank{0}, Rank{1}, Rank{3}));
  EXPECT_THAT(fate.stop, ElementsAre(Rank{2}));
}

TEST(ExpectedFate, OfHalvesIsThatTheOneWithTheLowestRankServes) {
  CaseFault cut = make_fault(FaultKind::cut, Rank{3});
  cut.side_of_rank = {Rank{1}, Rank{3}};
  const Fate fate = expected_fate(four_ranks(cut), {true});
  EXPECT_THAT(fate.serve, ElementsAre(Rank{0}, Rank{2}));
  EXPECT_THAT(fate.stop, ElementsAre(Rank{1}, Rank{3}));
}

TEST(ExpectedFate, OfAShortStopIsOpenForTheStoppedRank) {
  CaseFault stop = make_fault(FaultKind::stop, Rank{1});
  stop.length = std::chrono::milliseconds(1);
  EXPECT_THAT(expected_fate(four_ranks(stop), {true}).stop, IsEmpty());
  stop.length = std::chrono::hours(1);
  EXPECT_THAT(expected_fate(four_ranks(stop), {true}).stop, ElementsAre(Rank{1}));
}

TEST(ExpectedFate, IsOpenOnlyForTheEndsOfASingleLinkAndWholeWhereNothingStruck) {
  CaseFault cut = make_fault(FaultKind::cut, Rank{3});
  cut.peer = Rank{1};
  EXPECT_THAT(expected_fate(four_ranks(cut), {true}).serve, ElementsAre(Rank{0}, Rank{2}));
  EXPECT_THAT(expected_fate(four_ranks(cut), {true}).stop, IsEmpty());
  EXPECT_THAT(expected_fate(four_ranks(cut), {false}).serve, testing::SizeIs(4));
}

}  // namespace
}  // namespace trimtab::verify
