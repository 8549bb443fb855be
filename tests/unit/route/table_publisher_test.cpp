// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/table_publisher.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace trimtab::test {
namespace {

RoutingTable table_of(std::uint64_t epoch, std::uint32_t split_version = 0) {
  return make_table(make_placement(2, {{0, 1, 0}}), epoch, split_version);
}

TEST(TablePublisher, ReadersSeeTheTablePublishedLast) {
  TablePublisher publisher(table_of(1));
  TableReader reader = publisher.make_reader();
  EXPECT_EQ(reader.acquire()->identity().epoch, Epoch{1});
  ASSERT_TRUE(publisher.publish(table_of(2, 5)));
  EXPECT_EQ((*reader.acquire()).identity(), (TableIdentity{Epoch{2}, 5}));
  EXPECT_EQ(publisher.identity(), (TableIdentity{Epoch{2}, 5}));
}

TEST(TablePublisher, RefusesATableThatIsNotNewer) {
  TablePublisher publisher(table_of(4, 2));
  TableReader reader = publisher.make_reader();
  for (const auto& [epoch, split_version] : {std::pair{4U, 2U}, {4U, 1U}, {3U, 9U}, {0U, 0U}}) {
    const Status status = publisher.publish(table_of(epoch, split_version));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::version_mismatch);
    EXPECT_EQ(status.error().message, "routing table of epoch " + std::to_string(epoch) + ", split version " +
                                          std::to_string(split_version) +
                                          " is not newer than epoch 4, split version 2");
    EXPECT_EQ(reader.acquire()->identity(), (TableIdentity{Epoch{4}, 2}));
  }
}

TEST(TablePublisher, AHigherEpochOrSplitVersionIsNewer) {
  TablePublisher publisher(table_of(4, 2));
  EXPECT_TRUE(publisher.publish(table_of(4, 3)));
  EXPECT_TRUE(publisher.publish(table_of(5, 0)));
  EXPECT_TRUE(publisher.publish(table_of(9, 0)));
}

// xLLM 2058c9bd: a swap under a batch in flight crashed.
TEST(TablePublisher, ALeaseKeepsItsTableThroughLaterPublications) {
  TablePublisher publisher(table_of(1));
  TableReader reader = publisher.make_reader();
  TableReader other = publisher.make_reader();
  {
    const TableLease lease = reader.acquire();
    ASSERT_TRUE(publisher.publish(table_of(2)));
    const TableLease newer = other.acquire();
    ASSERT_TRUE(publisher.publish(table_of(3)));
    EXPECT_EQ(publisher.num_retired(), 2U);
    EXPECT_EQ(lease->identity().epoch, Epoch{1});
    EXPECT_EQ(lease->replicas(LayerId{0}, ExpertId{0}).size(), 2U);
    EXPECT_EQ(newer->identity().epoch, Epoch{2});
  }
  EXPECT_EQ(publisher.num_retired(), 0U);
}

TEST(TablePublisher, FreesAReplacedTableThatNobodyHolds) {
  TablePublisher publisher(table_of(1));
  TableReader reader = publisher.make_reader();
  for (std::uint64_t epoch = 2; epoch < 20; ++epoch) {
    ASSERT_TRUE(publisher.publish(table_of(epoch)));
    EXPECT_EQ(publisher.num_retired(), 0U);
    EXPECT_EQ(reader.acquire()->identity().epoch, Epoch{epoch});
  }
}

TEST(TablePublisher, IsIdleOnlyWhileNoLeaseLives) {
  TablePublisher publisher(table_of(1));
  EXPECT_TRUE(publisher.is_idle());
  TableReader first = publisher.make_reader();
  TableReader second = publisher.make_reader();
  EXPECT_TRUE(publisher.is_idle());  // A reader is no lease.
  std::optional<TableLease> old_lease(first.acquire());
  ASSERT_TRUE(publisher.publish(table_of(2)));
  std::optional<TableLease> lease(second.acquire());
  EXPECT_FALSE(publisher.is_idle());
  old_lease.reset();
  EXPECT_FALSE(publisher.is_idle());  // The current table counts as well.
  lease.reset();
  EXPECT_TRUE(publisher.is_idle());
}

TEST(TablePublisher, AMovedLeaseIsReleasedOnce) {
  TablePublisher publisher(table_of(1));
  TableReader reader = publisher.make_reader();
  {
    TableLease lease = reader.acquire();
    {
      const TableLease moved = std::move(lease);
      EXPECT_EQ(moved->identity().epoch, Epoch{1});
      EXPECT_FALSE(publisher.is_idle());
    }
    EXPECT_TRUE(publisher.is_idle());
    ASSERT_TRUE(publisher.publish(table_of(2)));
    EXPECT_EQ(publisher.num_retired(), 0U);
  }
}

TEST(TablePublisher, AMovedReaderReadsOn) {
  TablePublisher publisher(table_of(1));
  TableReader reader = publisher.make_reader();
  TableReader moved = std::move(reader);
  const TableLease lease = moved.acquire();
  EXPECT_EQ(lease->identity().epoch, Epoch{1});
  EXPECT_FALSE(publisher.is_idle());
}

TEST(TablePublisher, ReadersThatComeAndGoDoNotDisturbOthers) {
  TablePublisher publisher(table_of(1));
  TableReader lasting = publisher.make_reader();
  const TableLease lease = lasting.acquire();
  for (std::uint64_t epoch = 2; epoch < 10; ++epoch) {
    TableReader passing = publisher.make_reader();
    EXPECT_EQ(passing.acquire()->identity().epoch, Epoch{epoch - 1});
    ASSERT_TRUE(publisher.publish(table_of(epoch)));
    EXPECT_EQ(lease->identity().epoch, Epoch{1});
    EXPECT_EQ(publisher.num_retired(), 1U);
  }
}

}  // namespace
}  // namespace trimtab::test
