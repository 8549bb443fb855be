// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>
#include <trimtab/route/table_publisher.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <thread>

namespace trimtab::test {
namespace {

constexpr std::int32_t num_experts = 8;
constexpr int num_readers = 4;
constexpr int num_reads = 4000;
constexpr std::uint64_t num_epochs = 400;

/// Expert e lies at slot (e + epoch) mod 8: the content proves the identity.
RoutingTable rotated(std::uint64_t epoch) {
  std::vector<std::int32_t> map(num_experts);
  for (std::uint64_t e = 0; e < num_experts; ++e)
    map[(e + epoch) % num_experts] = static_cast<std::int32_t>(e);
  return make_table(make_placement(num_experts, {map, map}), epoch);
}

bool content_is_of(const RoutingTable& table, std::uint64_t epoch) {
  for (LayerId layer : ids<LayerId>(table.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(num_experts)) {
      const SlotId expected{static_cast<std::int32_t>((expert.index() + epoch) % num_experts)};
      if (table.replicas(layer, expert).front() != expected) return false;
    }
  }
  return true;
}

struct ReaderReport {
  int wrong_contents = 0;
  int steps_back = 0;
};

/// Looks at the table at the beginning and at the end of each lease.
ReaderReport read_tables(TableReader reader) {
  ReaderReport report;
  std::uint64_t last = 0;
  for (int i = 0; i < num_reads; ++i) {
    const TableLease lease = reader.acquire();
    const std::uint64_t epoch = lease->identity().epoch.value();
    report.steps_back += epoch < last ? 1 : 0;
    last = epoch;
    report.wrong_contents += content_is_of(*lease, epoch) ? 0 : 1;
    if (i % 16 == 0) std::this_thread::yield();
    report.wrong_contents += content_is_of(*lease, epoch) && lease->identity().epoch == Epoch{epoch} ? 0 : 1;
  }
  return report;
}

// vllm-project/vllm#37601, xLLM 2058c9bd: tables changed while a batch used them.
TEST(TablePublisherThreads, EveryLeaseShowsOneWholeTable) {
  TablePublisher publisher(rotated(1));
  std::vector<ReaderReport> reports(num_readers);
  std::latch begin(num_readers + 1);
  {
    std::vector<std::jthread> threads;
    for (ReaderReport& report : reports) {
      threads.emplace_back([&] {
        begin.arrive_and_wait();
        report = read_tables(publisher.make_reader());
      });
    }
    begin.arrive_and_wait();
    for (std::uint64_t epoch = 2; epoch <= num_epochs; ++epoch) {
      ASSERT_TRUE(publisher.publish(rotated(epoch)));
      EXPECT_LE(publisher.num_retired(), static_cast<std::size_t>(num_readers));
    }
  }
  for (const ReaderReport& report : reports) {
    EXPECT_EQ(report.wrong_contents, 0);
    EXPECT_EQ(report.steps_back, 0);
  }
  EXPECT_TRUE(publisher.is_idle());
  EXPECT_EQ(publisher.num_retired(), 0U);
}

/// The bound only keeps a broken is_idle() from hanging the test.
bool wait_until_idle(const TablePublisher& publisher) {
  for (std::int64_t look = 0; look < 100'000'000; ++look) {
    if (publisher.is_idle()) return true;
    std::this_thread::yield();
  }
  return false;
}

// vllm-project/vllm#32881: a buffer was overwritten while the previous user still read it. Slots are
// overwritten in place once is_idle() holds, so what a batch read under its lease must be ordered before.
TEST(TablePublisherThreads, IsIdleOrdersABatchBeforeWhatOverwritesItsSlots) {
  constexpr int num_rounds = 200;
  TablePublisher publisher(rotated(1));
  int slot_bytes = 0;  // Plain memory: a missing order is a race that ThreadSanitizer reports.
  std::barrier admitted(2);
  std::barrier published(2);
  int wrong_reads = 0;
  std::jthread batch([&] {
    TableReader reader = publisher.make_reader();
    for (int round = 0; round < num_rounds; ++round) {
      {
        const TableLease lease = reader.acquire();
        admitted.arrive_and_wait();
        wrong_reads += slot_bytes == round ? 0 : 1;
        wrong_reads += content_is_of(*lease, static_cast<std::uint64_t>(round) + 1) ? 0 : 1;
      }
      published.arrive_and_wait();
    }
  });
  for (int round = 0; round < num_rounds; ++round) {
    admitted.arrive_and_wait();
    EXPECT_TRUE(wait_until_idle(publisher));
    slot_bytes = round + 1;
    EXPECT_TRUE(publisher.publish(rotated(static_cast<std::uint64_t>(round) + 2)));
    published.arrive_and_wait();
  }
  batch.join();
  EXPECT_EQ(wrong_reads, 0);
}

TEST(TablePublisherThreads, ReadersAreMadeAndDroppedWhileTablesChange) {
  TablePublisher publisher(rotated(1));
  std::atomic<int> wrong_contents = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < num_readers; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 300; ++i) {
          TableReader reader = publisher.make_reader();
          const TableLease lease = reader.acquire();
          if (!content_is_of(*lease, lease->identity().epoch.value())) ++wrong_contents;
        }
      });
    }
    for (std::uint64_t epoch = 2; epoch <= 100; ++epoch) ASSERT_TRUE(publisher.publish(rotated(epoch)));
  }
  EXPECT_EQ(wrong_contents, 0);
  EXPECT_EQ(publisher.num_retired(), 0U);
}

// Each forward thread has its own router; they share the tables only.
TEST(TablePublisherThreads, RoutersFollowThePublishedTables) {
  TablePublisher publisher(rotated(1));
  std::atomic<int> wrong_slots = 0;
  {
    std::vector<std::jthread> threads;
    for (Rank rank : ids<Rank>(num_readers)) {
      threads.emplace_back([&, rank] {
        TableReader reader = publisher.make_reader();
        Router router(2, num_experts, rank);
        const std::vector<ExpertId> experts{ExpertId{5}, no_expert, ExpertId{0}, ExpertId{5}};
        std::vector<SlotId> slots(experts.size());
        for (int i = 0; i < 1000; ++i) {
          const TableLease lease = reader.acquire();
          const auto epoch = static_cast<std::int32_t>(lease->identity().epoch.value());
          const SlotId expected{(5 + epoch) % num_experts};
          const bool sent = router.dispatch(*lease, LayerId{1}, experts, slots).has_value();
          if (!sent || slots[0] != expected || slots[1] != no_slot || slots[3] != expected) ++wrong_slots;
        }
      });
    }
    for (std::uint64_t epoch = 2; epoch <= 100; ++epoch) ASSERT_TRUE(publisher.publish(rotated(epoch)));
  }
  EXPECT_EQ(wrong_slots, 0);
}

}  // namespace
}  // namespace trimtab::test
