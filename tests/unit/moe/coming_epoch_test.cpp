// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/table_publisher.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "moe/dispatch.hpp"
#include "moe/executor.hpp"
#include "unit/moe/rank_threads.hpp"

// What a rank does with traffic of a forward that it has not begun: design §5, "held, or an error".

namespace trimtab::moe {
namespace {

constexpr auto at_once = std::chrono::nanoseconds(0);
constexpr LayerId layer{0};

BatchKey key_of(std::uint64_t epoch, std::uint64_t forward) {
  return {{Epoch{epoch}, 0}, Forward{forward}, layer};
}

/// Two ends of the forward's channel, played by one thread: rank 1 sends rows, rank 0 reads them.
class TwoEnds : public testing::Test {
 protected:
  TwoEnds()
      : ends_(*make_inproc_transports(2)),
        topology_(*Topology::make_uniform(2, 1, 8)),
        sender_(small, topology_, 1),
        receiver_(small, topology_, 1),
        inbox_(small, topology_, Rank{0}, 1) {}

  /// Rank 1 is at `key` and sends what it has for rank 0: one assignment to slot 2.
  void send(const BatchKey& key) {
    pack(sender_, key);
    const std::span<const std::byte> message = sender_.messages()[0];
    messages_.emplace_back(message.begin(), message.end());
    const Leg leg = send_leg(Rank{0}, rows_tag, messages_.back());
    sent_ = *ends_[1]->post({&leg, 1});
  }
  [[nodiscard]] Progress progress_of_send() { return *ends_[1]->poll(sent_, at_once); }

  /// Rank 0 begins the layer at `key`: takes the message in and reads it.
  [[nodiscard]] Status receive(const BatchKey& key) {
    pack(receiver_, key);
    const Leg leg = receive_leg(Rank{1}, rows_tag, inbox_.buffers()[1]);
    const Ticket ticket = *ends_[0]->post({&leg, 1});
    EXPECT_EQ(*ends_[0]->poll(ticket, at_once), Progress::done);
    return inbox_.open(key, receiver_);
  }

  [[nodiscard]] std::string said_by(const Status& status) { return status ? "" : status.error().message; }

  const ReceivedRows& rows_of_sender() const { return inbox_.rows()[1]; }

 private:
  void pack(Outbox& outbox, const BatchKey& key) {
    const std::vector<SlotId> slots(small.choices(), SlotId{2});
    const std::vector<std::int8_t> values(small.width(), 5);
    const std::vector<RowScale> scales(1);
    outbox.pack(key, slots, values, scales);
  }

  std::deque<std::vector<std::byte>> messages_;  ///< On their way.
  std::vector<std::unique_ptr<Transport>> ends_;
  Topology topology_;
  Outbox sender_;
  Outbox receiver_;
  Inbox inbox_;
  Ticket sent_;
};

TEST_F(TwoEnds, TrafficOfTheComingEpochIsHeldUntilPublication) {
  const Placement placement = identity(small, 8);
  TablePublisher publisher(
      *RoutingTable::compile(placement, *Topology::make_uniform(2, 1, 8), {Epoch{4}, 0}));
  send(key_of(5, 9));                                // Rank 1 has committed; rank 0 still serves epoch 4.
  EXPECT_EQ(progress_of_send(), Progress::pending);  // Nobody has read it.
  ASSERT_TRUE(
      publisher.publish(*RoutingTable::compile(placement, *Topology::make_uniform(2, 1, 8), {Epoch{5}, 0})));
  const Status read = receive({publisher.identity(), Forward{9}, layer});
  EXPECT_TRUE(read.has_value()) << said_by(read);
  EXPECT_EQ(rows_of_sender().targets.size(), small.choices());
  EXPECT_EQ(progress_of_send(), Progress::done);
}

TEST_F(TwoEnds, TheComingEpochIsAnErrorToARankThatHasBegunTheForward) {
  send(key_of(5, 9));
  EXPECT_EQ(said_by(receive(key_of(4, 9))),
            "rank 1 is at epoch 5, split 0, forward 9, layer 0; this rank at epoch 4, split 0, forward 9, "
            "layer 0");
}

TEST_F(TwoEnds, AnOldEpochIsAnError) {
  send(key_of(4, 9));
  const Status read = receive(key_of(5, 9));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Errc::version_mismatch);
  EXPECT_EQ(read.error().message,
            "rank 1 is at epoch 4, split 0, forward 9, layer 0; this rank at epoch 5, split 0, forward 9, "
            "layer 0");
}

TEST_F(TwoEnds, ASkippedEpochIsAnError) {
  send(key_of(6, 9));
  const Status read = receive(key_of(5, 9));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Errc::version_mismatch);
}

TEST_F(TwoEnds, AnotherForwardIsAnErrorWhateverTheEpoch) {
  send(key_of(5, 10));
  EXPECT_FALSE(receive(key_of(5, 9)).has_value());
  send(key_of(5, 8));
  EXPECT_FALSE(receive(key_of(5, 9)).has_value());
}

TEST_F(TwoEnds, MessagesOfTwoForwardsAreReadInTheirOrder) {
  send(key_of(4, 8));
  send(key_of(5, 9));
  EXPECT_TRUE(receive(key_of(4, 8)).has_value());
  EXPECT_TRUE(receive(key_of(5, 9)).has_value());
}

/// The same with executors: rank 1 has committed and is inside forward 9, waiting for rank 0, before rank 0
/// publishes.
TEST(RankExecutor, ARankMayBeginAForwardBeforeAnotherHasPublishedItsTable) {
  RankThreads cluster(small, 2, 8);
  const Placement placement = identity(small, 8);
  cluster.load(placement, Epoch{4});
  cluster.set_table(Rank{1}, placement, {Epoch{5}, 0});
  const Reals bias = some_bias(small);
  std::atomic<bool> is_waiting{false};
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 4, std::chrono::seconds(60), [&]() -> Status {
      if (rank == Rank{1}) is_waiting.store(true);
      return {};
    });
    if (rank == Rank{0}) {
      while (!is_waiting.load()) std::this_thread::yield();
      cluster.set_table(Rank{0}, placement, {Epoch{5}, 0});
    }
    Reals states = tokens_of(small, rank, Forward{9}, 4);
    const Reals expected = reference_of(small, states);
    const Status done = executor->forward(Forward{9}, states, bias, cluster.table(rank));
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_EQ(states, expected);
  });
}

}  // namespace
}  // namespace trimtab::moe
