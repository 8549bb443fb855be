// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "moe/executor.hpp"
#include "unit/moe/rank_threads.hpp"

namespace trimtab::moe {
namespace {

/// Runs one forward on two ranks that disagree; returns their errors.
std::vector<Error> run_disagreeing(RankThreads& cluster, Forward of_rank0, Forward of_rank1) {
  std::vector<Error> errors(2);
  const Reals bias = some_bias(small);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 4);
    Reals states = tokens_of(small, rank, Forward{0}, 4);
    const Status done =
        executor->forward(rank == Rank{0} ? of_rank0 : of_rank1, states, bias, cluster.table(rank));
    errors[rank.index()] = done ? Error{Errc::ok, "accepted"} : done.error();
  });
  return errors;
}

TEST(RankExecutor, RefusesMessagesOfAnotherEpochNamingBoth) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8), Epoch{4});
  cluster.set_table(Rank{1}, identity(small, 8), {Epoch{5}, 0});
  const std::vector<Error> errors = run_disagreeing(cluster, Forward{9}, Forward{9});
  EXPECT_EQ(errors[0].code, Errc::version_mismatch);
  EXPECT_EQ(
      errors[0].message,
      "rank 1 is at epoch 5, split 0, forward 9, layer 0; this rank at epoch 4, split 0, forward 9, layer 0");
  EXPECT_EQ(errors[1].code, Errc::version_mismatch);
}

TEST(RankExecutor, RefusesMessagesOfAnotherForwardOrSplit) {
  RankThreads forwards(small, 2, 8);
  forwards.load(identity(small, 8));
  EXPECT_EQ(run_disagreeing(forwards, Forward{9}, Forward{10})[0].code, Errc::version_mismatch);
  RankThreads splits(small, 2, 8);
  splits.load(identity(small, 8));
  splits.set_table(Rank{1}, identity(small, 8), {Epoch{0}, 1});
  EXPECT_EQ(run_disagreeing(splits, Forward{9}, Forward{9})[0].code, Errc::version_mismatch);
}

TEST(RankExecutor, NamesTheRankItWaitedFor) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  const auto executor = cluster.make(Rank{0}, 4, std::chrono::milliseconds(20));
  Reals states = tokens_of(small, Rank{0}, Forward{0}, 4);
  const Reals bias = some_bias(small);
  // Rank 1 never comes.
  const Status done = executor->forward(Forward{0}, states, bias, cluster.table(Rank{0}));
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Errc::timeout);
  EXPECT_EQ(done.error().message, "a message from rank 1 took more than 20 ms");
  const Status again = executor->forward(Forward{1}, states, bias, cluster.table(Rank{0}));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Errc::closed);
}

TEST(RankExecutor, DropsCountsOfAFailedForward) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8), Epoch{4});
  cluster.record(8);
  cluster.set_table(Rank{1}, identity(small, 8), {Epoch{5}, 0});
  run_disagreeing(cluster, Forward{0}, Forward{0});
  for (const SlotCounts& counts : cluster.recorder(Rank{0}).take_window({})) {
    EXPECT_EQ(std::accumulate(counts.counts.begin(), counts.counts.end(), std::int64_t{0}), 0);
  }
}

TEST(RankExecutor, RefusesRowsForSlotsOfOthers) {
  RankThreads cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  Error error;
  const Reals bias = some_bias(small);
  cluster.on_all([&](Rank rank) {
    if (rank == Rank{1}) {
      struct Message {
        MessageHeader header;
        RowTarget target;
        std::int8_t values[64];
      } message{};
      message.header = make_header(MessageKind::rows, {{Epoch{0}, 0}, Forward{0}, LayerId{0}}, 1);
      message.target.slot = SlotId{7};
      const Leg leg = send_leg(Rank{0}, rows_tag, std::as_bytes(std::span(&message, 1)));
      const Result<Ticket> ticket = cluster.channel(rank).post({&leg, 1});
      ASSERT_TRUE(ticket.has_value());
      while (*cluster.channel(rank).poll(*ticket, std::chrono::milliseconds(1)) == Progress::pending) {
      }
      std::vector<std::byte> buffer(4096);
      const Leg back = receive_leg(Rank{0}, rows_tag, buffer);
      const Result<Ticket> received = cluster.channel(rank).post({&back, 1});
      ASSERT_TRUE(received.has_value());
      while (*cluster.channel(rank).poll(*received, std::chrono::milliseconds(1)) == Progress::pending) {
      }
      return;
    }
    const auto executor = cluster.make(rank, 4);
    Reals states = tokens_of(small, rank, Forward{0}, 4);
    const Status done = executor->forward(Forward{0}, states, bias, cluster.table(rank));
    error = done ? Error{Errc::ok, "accepted"} : done.error();
  });
  EXPECT_EQ(error.code, Errc::corrupt);
  EXPECT_EQ(error.message, "layer 0: rank 1 sent row 0 to slot 7, which is not of rank 0");
}

TEST(RankExecutor, RefusesInputThatDoesNotFit) {
  RankThreads cluster(small, 1, 8);
  cluster.load(identity(small, 8));
  const auto executor = cluster.make(Rank{0}, 2);
  Reals states(3 * small.width());
  const Reals bias = some_bias(small);
  const auto code = [&](std::span<float> s, std::span<const float> b) {
    const Status done = executor->forward(Forward{0}, s, b, cluster.table(Rank{0}));
    return done ? Errc::ok : done.error().code;
  };
  EXPECT_EQ(code(states, bias), Errc::invalid_argument);
  EXPECT_EQ(code(std::span(states).first(65), bias), Errc::invalid_argument);
  EXPECT_EQ(code(std::span(states).first(64), std::span(bias).first(5)), Errc::invalid_argument);
  EXPECT_EQ(code(std::span(states).first(64), bias), Errc::ok);
}

TEST(RankExecutor, RefusesPartsThatDoNotFit) {
  RankThreads cluster(small, 2, 8);
  const ReplicatedWeights weights(small);
  const SteadyClock clock;
  const Topology three = *Topology::make_uniform(3, 1, 8);
  const auto made =
      RankExecutor::make({small, 2, std::chrono::seconds(1), {}},
                         {cluster.channel(Rank{0}), three, weights, cluster.memory(Rank{0}), nullptr, clock});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message, "a channel of 2 ranks for a topology of 3");
  const auto wrong = RankExecutor::make(
      {small, 2, std::chrono::seconds(1), {}},
      {cluster.channel(Rank{0}), cluster.topology(), weights, cluster.memory(Rank{1}), nullptr, clock});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().message, "rank 0: memory of 4 slots from 4 for 4 slots from 0");
}

}  // namespace
}  // namespace trimtab::moe
