// SPDX-License-Identifier: Apache-2.0
#include <trimtab/balance/splitter.hpp>
#include <trimtab/route/router.hpp>

#include "support/placements.hpp"
#include "support/threaded_executor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two ranks, experts 0 to 2; expert 1 has a replica on each.
const Placement two_layers = *Placement::make(
    2, 4, 3,
    {ExpertId{0}, ExpertId{1}, ExpertId{1}, ExpertId{2}, ExpertId{0}, ExpertId{1}, ExpertId{1}, ExpertId{2}});
const Topology two_ranks = uniform(2, 1, 4);

Splitter make_splitter() { return *Splitter::make(two_layers, two_ranks, Epoch{3}); }

TablePublisher make_publisher(Epoch epoch) {
  return TablePublisher(*RoutingTable::compile(two_layers, two_ranks, {epoch, 0}));
}

TEST(Splitter, LevelsTheRanksOfEachLayer) {
  Splitter splitter = make_splitter();
  SerialExecutor executor;
  const Result<Split> split = splitter.solve(std::vector<std::int64_t>{30, 60, 10, 0, 7, 7}, executor);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_THAT(split->layer(LayerId{0}), ElementsAre(30, 20, 40, 10));
  EXPECT_THAT(split->layer(LayerId{1}), ElementsAre(0, 7, 0, 7));
}

TEST(Splitter, KeepsTheSharesOfALayerThatTheWindowDidNotLoad) {
  Splitter splitter = make_splitter();
  SerialExecutor executor;
  ASSERT_TRUE(splitter.solve(std::vector<std::int64_t>{30, 60, 10, 0, 7, 7}, executor));
  const Result<Split> split = splitter.solve(std::vector<std::int64_t>{0, 0, 0, 5, 0, 5}, executor);
  ASSERT_TRUE(split);
  EXPECT_THAT(split->layer(LayerId{0}), ElementsAre(30, 20, 40, 10));
}

TEST(Splitter, DoesNotDependOnTheExecutor) {
  Splitter serial = make_splitter();
  Splitter threaded = make_splitter();
  SerialExecutor one;
  ThreadedExecutor many(3);
  const std::vector<std::int64_t> counts{31, 61, 10, 5, 7, 8};
  EXPECT_EQ(*serial.solve(counts, one), *threaded.solve(counts, many));
}

TEST(Splitter, RefusesCountsThatDoNotFit) {
  Splitter splitter = make_splitter();
  SerialExecutor executor;
  const Result<Split> shape = splitter.solve(std::vector<std::int64_t>{1, 2, 3}, executor);
  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().message, HasSubstr("3 counts for 2 layers x 3 experts"));
  const Result<Split> negative = splitter.solve(std::vector<std::int64_t>{1, 2, 3, 4, -5, 6}, executor);
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().code, Errc::invalid_argument);
  EXPECT_THAT(negative.error().message, HasSubstr("layer 1"));
  EXPECT_THAT(negative.error().message, HasSubstr("expert 1"));
  EXPECT_THAT(negative.error().message, HasSubstr("-5"));
}

TEST(Splitter, RefusesAPlacementWithAnExpertThatIsDead) {
  std::vector<RankInfo> ranks{{NodeId{0}, 2, 1.0, true}, {NodeId{0}, 2, 1.0, false}};
  const Result<Splitter> made = Splitter::make(two_layers, *Topology::make(ranks), Epoch{0});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("expert 2"));
}

TEST(Splitter, PublishesTheNextSplitVersionOfItsEpoch) {
  Splitter splitter = make_splitter();
  TablePublisher publisher = make_publisher(Epoch{3});
  SerialExecutor executor;
  const std::vector<std::int64_t> counts{30, 60, 10, 0, 7, 7};
  for (std::uint32_t version : {1U, 2U}) {
    const Result<TableIdentity> published = splitter.solve_and_publish(counts, publisher, executor);
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_EQ(*published, (TableIdentity{Epoch{3}, version}));
    EXPECT_EQ(publisher.identity(), *published);
  }
}

TEST(Splitter, PublishesTheSharesThatItFound) {
  Splitter splitter = make_splitter();
  TablePublisher publisher = make_publisher(Epoch{3});
  SerialExecutor executor;
  ASSERT_TRUE(
      splitter.solve_and_publish(std::vector<std::int64_t>{30, 60, 10, 0, 7, 7}, publisher, executor));
  TableReader reader = publisher.make_reader();
  const TableLease table = reader.acquire();
  Router router(2, 3, Rank{0});
  const std::vector<ExpertId> experts(60, ExpertId{1});
  std::vector<SlotId> slots(experts.size());
  ASSERT_TRUE(router.dispatch(*table, LayerId{0}, experts, slots));
  std::map<SlotId, int> counts;
  for (SlotId slot : slots) ++counts[slot];
  EXPECT_NEAR(counts[SlotId{1}], 20, 1);
  EXPECT_NEAR(counts[SlotId{2}], 40, 1);
}

TEST(Splitter, DoesNotPublishIntoAnotherEpoch) {  // Shares of the old placement after a commit.
  Splitter splitter = make_splitter();
  TablePublisher publisher = make_publisher(Epoch{4});
  SerialExecutor executor;
  const Result<TableIdentity> published =
      splitter.solve_and_publish(std::vector<std::int64_t>{30, 60, 10, 0, 7, 7}, publisher, executor);
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Errc::version_mismatch);
  EXPECT_EQ(publisher.identity(), (TableIdentity{Epoch{4}, 0}));
}

TEST(Splitter, PublishesIntoMemoryThatStaysWhereItIs) {  // R6
  alignas(table_buffer_alignment) static std::byte memory[4096];
  TableBuffer buffer = *TableBuffer::make(memory, {2, 3, 4});
  Splitter splitter = make_splitter();
  SerialExecutor executor;
  for (std::uint32_t version : {1U, 2U}) {
    const std::vector<std::int64_t> counts{30, 60 * version, 10, 0, 7, 7};
    const Result<TableIdentity> published = splitter.solve_and_publish(counts, buffer, executor);
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_EQ(*published, (TableIdentity{Epoch{3}, version}));
    const Result<RoutingTable> read = read_table_buffer(memory, two_ranks);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->identity(), *published);
    const auto begins = read->share_begins(LayerId{0}, ExpertId{1});
    const double first = static_cast<double>(begins[1]) / RoutingTable::whole_share;
    EXPECT_NEAR(first, version == 1 ? 20.0 / 60 : 50.0 / 120, 1e-9);
  }
}

TEST(Splitter, DoesNotWriteAnOlderEpochIntoABuffer) {
  alignas(table_buffer_alignment) static std::byte memory[4096];
  TableBuffer buffer = *TableBuffer::make(memory, {2, 3, 4});
  SerialExecutor executor;
  const std::vector<std::int64_t> counts{30, 60, 10, 0, 7, 7};
  Splitter newer = *Splitter::make(two_layers, two_ranks, Epoch{4});
  ASSERT_TRUE(newer.solve_and_publish(counts, buffer, executor));
  Splitter older = make_splitter();
  const Result<TableIdentity> refused = older.solve_and_publish(counts, buffer, executor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::version_mismatch);
  EXPECT_EQ(read_table_buffer(memory, two_ranks)->identity(), (TableIdentity{Epoch{4}, 1}));
}

TEST(Splitter, OfADraftModelMakesTablesForADraftModel) {
  Splitter splitter = *Splitter::make(two_layers, two_ranks, Epoch{3}, ModelRole::draft);
  alignas(table_buffer_alignment) static std::byte memory[4096];
  TableBuffer buffer = *TableBuffer::make(memory, {2, 3, 4});
  SerialExecutor executor;
  ASSERT_TRUE(splitter.solve_and_publish(std::vector<std::int64_t>{30, 60, 10, 0, 7, 7}, buffer, executor));
  EXPECT_EQ(read_table_buffer(memory, two_ranks)->model(), ModelRole::draft);
}

TEST(SplitTables, DifferInTheirFingerprintWhenTheirCountsDo) {
  EXPECT_EQ(SplitTables({1, 2, 3}).fingerprint(), SplitTables({1, 2, 3}).fingerprint());
  EXPECT_NE(SplitTables({1, 2, 3}).fingerprint(), SplitTables({1, 2, 4}).fingerprint());
}

}  // namespace
}  // namespace trimtab::test
