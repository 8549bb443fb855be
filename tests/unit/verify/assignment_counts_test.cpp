// SPDX-License-Identifier: Apache-2.0
#include "verify/assignment_counts.hpp"

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

using testing::StartsWith;

const Placement before = test::one_layer(4, {0, 1, 2, 3});
const Placement after = test::one_layer(4, {0, 2, 1, 3});

/// A cluster that has gone from one placement to the other, and counts of both epochs.
class Counts : public testing::Test {
 protected:
  Counts() : cluster(test::uniform(2, 1, 4), before, options()), counts(1, 4, 4, 17) {
    route(10);
    cluster.begin(after);
    EXPECT_TRUE(cluster.run_until_idle());
    route(10);
  }

  static EngineOptions options() {
    EngineOptions options;
    options.staging_budget_bytes = 4096;
    return options;
  }
  void route(int forwards) {
    TableReader reader = cluster.publisher(0).make_reader();
    const TableLease table = reader.acquire();
    for (int i = 0; i < forwards; ++i) ASSERT_TRUE(counts.route(*table));
  }

  test::Cluster cluster;
  AssignmentCounts counts;
};

TEST_F(Counts, FoldByTheEpochTheyWereCountedIn) { EXPECT_TRUE(counts.check(cluster.engine(0), false)); }

TEST_F(Counts, DoNotFoldByAnotherEpoch) {
  const Status checked = counts.check(cluster.engine(0), true);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, StartsWith("epoch 1, layer 0, expert "));
}

TEST_F(Counts, NeedThePlacementOfTheirEpoch) {
  cluster.engine(0).forget_before(Epoch{1});
  EXPECT_EQ(counts.check(cluster.engine(0), false).error().code, Errc::not_found);
}

}  // namespace
}  // namespace trimtab::verify
