// SPDX-License-Identifier: Apache-2.0
#include "route/protect.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trimtab::test {
namespace {

/// A current table that other threads replace between the looks, as scripted. A table is a number here.
struct ScriptedCurrent {
  std::vector<int> looks;
  mutable std::size_t num_looks = 0;

  int load(std::memory_order) const noexcept { return looks[num_looks++]; }
};

/// Keeps what was shown, in order.
struct RecordedHazard {
  std::vector<int> shown;

  void store(int table, std::memory_order) { shown.push_back(table); }
};

TEST(Protect, ShowsTheTableBeforeItTrustsIt) {
  const ScriptedCurrent current{{7, 7}};
  RecordedHazard hazard;
  EXPECT_EQ(protect(current, hazard), 7);
  EXPECT_EQ(hazard.shown, std::vector{7});
  EXPECT_EQ(current.num_looks, 2U);
}

// Between the looks table 7 may be freed already: the publisher looked before it was shown.
TEST(Protect, LooksAgainWhenTheTableWasReplacedMeanwhile) {
  const ScriptedCurrent current{{7, 8, 9, 9}};
  RecordedHazard hazard;
  EXPECT_EQ(protect(current, hazard), 9);
  EXPECT_EQ(hazard.shown, (std::vector{7, 8, 9}));
  EXPECT_EQ(current.num_looks, 4U);
}

// An address can come back with another table behind it. The one shown is the one that is current, so it is
// safe.
TEST(Protect, ATableAtAReusedAddressIsTheCurrentOne) {
  const ScriptedCurrent current{{7, 8, 7, 7}};
  RecordedHazard hazard;
  EXPECT_EQ(protect(current, hazard), 7);
  EXPECT_EQ(hazard.shown, (std::vector{7, 8, 7}));
}

}  // namespace
}  // namespace trimtab::test
