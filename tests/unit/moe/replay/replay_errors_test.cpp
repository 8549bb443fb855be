// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "moe/replay/replay_executor.hpp"
#include "unit/moe/rank_threads.hpp"

namespace trimtab::moe {
namespace {

using testing::HasSubstr;

/// One forward, then `damage` to the table buffer, then the error of the next forward.
Error error_after(const std::function<void(std::span<std::byte>)>& damage,
                  TableIdentity next = {Epoch{4}, 0}) {
  RankThreads cluster(small, 1, 8);
  cluster.load(identity(small, 8), Epoch{4});
  const auto executor = cluster.make_replay(Rank{0}, 4);
  Reals states = tokens_of(small, Rank{0}, Forward{0}, 4);
  EXPECT_TRUE(executor->forward(Forward{0}, states, some_bias(small), cluster.table(Rank{0})).has_value());
  damage(executor->table_memory());
  cluster.set_table(Rank{0}, identity(small, 8), next);
  const Status done = executor->forward(Forward{1}, states, some_bias(small), cluster.table(Rank{0}));
  return done ? Error{Errc::ok, "accepted"} : done.error();
}

TableBufferHead& head_in(std::span<std::byte> memory) {
  return *reinterpret_cast<TableBufferHead*>(memory.data());
}

TEST(ReplayErrors, AnUndamagedTableIsAccepted) {
  const Error error = error_after([](std::span<std::byte>) {});
  EXPECT_EQ(error.code, Errc::ok) << error.message;
}

TEST(ReplayErrors, ATableThatIsBeingWrittenIsRefused) {
  const Error error = error_after([](std::span<std::byte> memory) { ++head_in(memory).sequence; });
  EXPECT_EQ(error.code, Errc::corrupt);
  EXPECT_THAT(error.message, HasSubstr("it is being written"));
}

TEST(ReplayErrors, AHalfWrittenTableIsRefused) {
  const auto swap_slots = [](std::span<std::byte> memory) {
    const std::size_t slots = table_buffer_layout({small.num_layers, small.num_experts, 8}).slots;
    auto* at = reinterpret_cast<std::int32_t*>(memory.data() + slots);
    std::swap(at[0], at[1]);
  };
  const Error error = error_after(swap_slots);
  EXPECT_EQ(error.code, Errc::corrupt);
  EXPECT_THAT(error.message, HasSubstr("checksum"));
}

TEST(ReplayErrors, AForwardUnderAnOlderTableThanTheBufferHoldsIsRefusedNamingBoth) {
  const Error error = error_after([](std::span<std::byte>) {}, {Epoch{3}, 7});
  EXPECT_EQ(error.code, Errc::version_mismatch);
  EXPECT_THAT(error.message, HasSubstr("epoch 3"));
  EXPECT_THAT(error.message, HasSubstr("epoch 4"));
}

// Somebody writes while a forward runs here: found at its end, whatever was read.
TEST(ReplayErrors, ATableWrittenDuringAForwardIsRefused) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  std::atomic<bool> has_written = false;
  Error error{Errc::ok, ""};
  cluster.on_all([&](Rank rank) {
    ReplayExecutor* self = nullptr;
    const auto write_once = [&]() -> Status {
      if (rank == Rank{0} && !has_written.exchange(true)) ++head_in(self->table_memory()).sequence;
      return {};
    };
    const auto executor =
        cluster.make_replay(rank, 4, cluster.memory(rank), std::chrono::seconds(60), write_once);
    self = executor.get();
    while (rank == Rank{1} && !has_written) std::this_thread::yield();
    Reals states = tokens_of(small, rank, Forward{0}, 4);
    const Status done = executor->forward(Forward{0}, states, some_bias(small), cluster.table(rank));
    if (rank == Rank{0} && !done) error = done.error();
  });
  EXPECT_EQ(error.code, Errc::corrupt);
  EXPECT_THAT(error.message, HasSubstr("it is being written"));
}

TEST(ReplayErrors, MessagesOfAnotherEpochAreRefusedNamingBoth) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8), Epoch{4});
  cluster.set_table(Rank{1}, identity(small, 8), {Epoch{5}, 0});
  std::vector<Error> errors(2);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make_replay(rank, 4);
    Reals states = tokens_of(small, rank, Forward{0}, 4);
    const Status done = executor->forward(Forward{9}, states, some_bias(small), cluster.table(rank));
    errors[rank.index()] = done ? Error{Errc::ok, "accepted"} : done.error();
  });
  EXPECT_EQ(errors[0].code, Errc::version_mismatch);
  EXPECT_EQ(
      errors[0].message,
      "rank 1 is at epoch 5, split 0, forward 9, layer 0; this rank at epoch 4, split 0, forward 9, layer 0");
  EXPECT_EQ(errors[1].code, Errc::version_mismatch);
}

TEST(ReplayErrors, TheRankWaitedForIsNamed) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  const auto executor =
      cluster.make_replay(Rank{0}, 4, cluster.memory(Rank{0}), std::chrono::milliseconds(20));
  Reals states = tokens_of(small, Rank{0}, Forward{0}, 4);
  const Status done = executor->forward(Forward{0}, states, some_bias(small), cluster.table(Rank{0}));
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().message, "a message from rank 1 took more than 20 ms");
}

TEST(ReplayErrors, MoreTokensThanWereRecordedAreRefused) {
  RankThreads cluster(small, 1, 8);
  cluster.load(identity(small, 8));
  const auto executor = cluster.make_replay(Rank{0}, 4);
  Reals states = tokens_of(small, Rank{0}, Forward{0}, 5);
  const Status done = executor->forward(Forward{0}, states, some_bias(small), cluster.table(Rank{0}));
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Errc::invalid_argument);
}

// What was abandoned is not counted.
TEST(ReplayErrors, AFailedForwardIsNotCounted) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  cluster.record(8);
  const auto executor =
      cluster.make_replay(Rank{0}, 4, cluster.memory(Rank{0}), std::chrono::milliseconds(20));
  Reals states = tokens_of(small, Rank{0}, Forward{0}, 4);
  ASSERT_FALSE(executor->forward(Forward{0}, states, some_bias(small), cluster.table(Rank{0})).has_value());
  EXPECT_TRUE(cluster.recorder(Rank{0}).take_window({}).empty());
  EXPECT_EQ(executor->report().replays, 0);
}

}  // namespace
}  // namespace trimtab::moe
