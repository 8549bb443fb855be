// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <thread>
#include <vector>

namespace trimtab::test {
namespace {

using Bytes = std::vector<std::byte>;
using Ends = std::vector<std::unique_ptr<Transport>>;

constexpr std::chrono::nanoseconds at_once{0};
constexpr std::chrono::milliseconds a_while{100};

Ends make_ends(std::int32_t num_ranks) {
  Result<Ends> ends = make_inproc_transports(num_ranks);
  EXPECT_TRUE(ends);
  return std::move(*ends);
}

Ticket post(Transport& end, const Leg& leg) {
  const Result<Ticket> ticket = end.post({&leg, 1});
  EXPECT_TRUE(ticket);
  return *ticket;
}

TEST(Inproc, RefusesToHaveNoRanks) {
  for (std::int32_t num_ranks : {0, -3}) {
    const Result<Ends> ends = make_inproc_transports(num_ranks);
    ASSERT_FALSE(ends);
    EXPECT_EQ(ends.error().code, Errc::invalid_argument);
  }
}

// All ranks of a test may share one thread: nothing needs the peer to run at the same time.
TEST(Inproc, DeliversBetweenEndsOnOneThread) {
  Ends ends = make_ends(2);
  const Bytes message(5, std::byte{9});
  Bytes memory(5);
  const Ticket sent = post(*ends[0], send_leg(Rank{1}, Tag{1}, message));
  EXPECT_EQ(*ends[0]->poll(sent, at_once), Progress::pending);
  const Ticket received = post(*ends[1], receive_leg(Rank{0}, Tag{1}, memory));
  EXPECT_EQ(*ends[1]->poll(received, at_once), Progress::done);
  EXPECT_EQ(*ends[0]->poll(sent, at_once), Progress::done);
  EXPECT_EQ(memory, message);
}

TEST(Inproc, CancelledSendIsGoneForItsReceiver) {
  Ends ends = make_ends(2);
  const Bytes first(1, std::byte{1});
  const Bytes second(1, std::byte{2});
  const Ticket given_up = post(*ends[0], send_leg(Rank{1}, Tag{1}, first));
  post(*ends[0], send_leg(Rank{1}, Tag{1}, second));
  ends[0]->cancel(given_up);
  EXPECT_EQ(*ends[0]->poll(given_up, at_once), Progress::cancelled);
  Bytes memory(1);
  const Ticket received = post(*ends[1], receive_leg(Rank{0}, Tag{1}, memory));
  EXPECT_EQ(*ends[1]->poll(received, at_once), Progress::done);
  EXPECT_EQ(memory, second);
}

TEST(Inproc, SaysThatThePeerIsLostAndStillLetsGoOfTheTicket) {
  Ends ends = make_ends(3);
  Bytes memory(1, std::byte{5});
  const Ticket ticket = post(*ends[0], receive_leg(Rank{1}, Tag{6}, memory));
  ends[1]->close();
  const Result<Progress> lost = ends[0]->poll(ticket, a_while);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::peer_lost);
  EXPECT_NE(lost.error().message.find("rank 1"), std::string::npos) << lost.error().message;
  EXPECT_NE(lost.error().message.find("tag 6"), std::string::npos) << lost.error().message;
  ends[0]->cancel(ticket);
  EXPECT_EQ(*ends[0]->poll(ticket, at_once), Progress::cancelled);
  EXPECT_EQ(memory, Bytes(1, std::byte{5}));
}

TEST(Inproc, ServesOnWithThePeersThatAreLeft) {
  Ends ends = make_ends(3);
  ends[1].reset();
  const Bytes message(5, std::byte{9});
  Bytes memory(5);
  post(*ends[0], send_leg(Rank{2}, Tag{1}, message));
  const Ticket received = post(*ends[2], receive_leg(Rank{0}, Tag{1}, memory));
  EXPECT_EQ(*ends[2]->poll(received, a_while), Progress::done);
  EXPECT_EQ(memory, message);
  EXPECT_TRUE(ends[2]->can_reach(Rank{1})) << "reach is a matter of ranks, not of time";
}

TEST(Inproc, WakesRankThatWaitsForAPeerThatCloses) {
  Ends ends = make_ends(2);
  Bytes memory(1);
  const Ticket ticket = post(*ends[0], receive_leg(Rank{1}, Tag{1}, memory));
  std::thread closer([end = std::move(ends[1])] { end->close(); });
  const Result<Progress> lost = ends[0]->poll(ticket, std::chrono::minutes(1));
  closer.join();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::peer_lost);
}

TEST(Inproc, TellsOfClosedPeersOnceAndInOrder) {
  Ends ends = make_ends(4);
  ends[2]->close();
  ends[0].reset();
  EXPECT_EQ(ends[1]->take_peer_down_events(), (std::vector{Rank{2}, Rank{0}}));
  EXPECT_TRUE(ends[1]->take_peer_down_events().empty());
  ends[3]->close();
  EXPECT_EQ(ends[1]->take_peer_down_events(), std::vector{Rank{3}});
  EXPECT_EQ(ends[2]->take_peer_down_events(), (std::vector{Rank{0}, Rank{3}})) << "never of itself";
}

// The address sanitizer watches: nobody may touch what belonged to the end that is gone.
TEST(Inproc, MemoryOfDestroyedEndIsNotTouched) {
  Ends ends = make_ends(2);
  {
    const Bytes message(100'000);
    Bytes memory(100'000);
    post(*ends[0], send_leg(Rank{1}, Tag{1}, message));
    post(*ends[0], receive_leg(Rank{1}, Tag{2}, memory));
    ends[0].reset();
  }
  const Bytes message(100'000);
  Bytes memory(100'000);
  const Ticket received = post(*ends[1], receive_leg(Rank{0}, Tag{1}, memory));
  const Ticket sent = post(*ends[1], send_leg(Rank{0}, Tag{2}, message));
  for (Ticket ticket : {received, sent}) {
    EXPECT_EQ(ends[1]->poll(ticket, at_once).error().code, Errc::peer_lost);
  }
  ends[1]->close();
  for (Ticket ticket : {received, sent}) EXPECT_EQ(*ends[1]->poll(ticket, at_once), Progress::cancelled);
}

TEST(Inproc, EndsDieInAnyOrderWithLegsPostedAtEachOther) {
  for (std::size_t first : {0U, 1U, 2U}) {
    Bytes message(64);
    Bytes memory(64);
    Ends ends = make_ends(3);
    for (Rank rank : ids<Rank>(3)) {
      const Rank next{(rank.value() + 1) % 3};
      post(*ends[rank.index()], send_leg(next, Tag{1}, message));
      post(*ends[rank.index()], receive_leg(next, Tag{1}, memory));
    }
    ends[first].reset();
    ends[(first + 2) % 3].reset();
  }
}

TEST(Inproc, ChannelsMeetInTheOrderOfOpening) {
  Ends ends = make_ends(2);
  Ends firsts;
  Ends seconds;
  for (auto& end : ends) {  // rank 0 opens both before rank 1 opens any: it must not wait
    firsts.push_back(std::move(*end->open_channel()));
    seconds.push_back(std::move(*end->open_channel()));
  }
  const std::array<Bytes, 2> messages{Bytes(1, std::byte{1}), Bytes(1, std::byte{2})};
  post(*seconds[0], send_leg(Rank{1}, Tag{1}, messages[1]));
  post(*firsts[0], send_leg(Rank{1}, Tag{1}, messages[0]));
  Bytes memory(1);
  for (std::size_t i : {0U, 1U}) {
    Transport& end = i == 0 ? *firsts[1] : *seconds[1];
    EXPECT_EQ(*end.poll(post(end, receive_leg(Rank{0}, Tag{1}, memory)), at_once), Progress::done);
    EXPECT_EQ(memory, messages[i]);
  }
}

TEST(Inproc, ClosingOneChannelLeavesTheOthersOpen) {
  Ends ends = make_ends(2);
  const auto channel = std::move(*ends[1]->open_channel());
  const auto peer = std::move(*ends[0]->open_channel());
  channel->close();
  EXPECT_EQ(peer->take_peer_down_events(), std::vector{Rank{1}});
  EXPECT_TRUE(ends[0]->take_peer_down_events().empty());
  EXPECT_TRUE(ends[1]->post({}));
}

// The design point has 320 ranks.
TEST(Inproc, HasRoomForManyRanks) {
  Ends ends = make_ends(320);
  const Bytes message(1, std::byte{7});
  Bytes memory(320);
  for (Rank rank : ids<Rank>(Rank{1}, 319)) {
    post(*ends[0], receive_leg(rank, Tag{1}, std::span(memory).subspan(rank.index(), 1)));
    post(*ends[rank.index()], send_leg(Rank{0}, Tag{1}, message));
  }
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{7}), 319);
}

/// What one rank does in the stress test: random messages to random peers under random tags, in flight many
/// at a time; both sides of each pair compute the same schedule from a seed.
class Talker {
 public:
  Talker(Transport& end, std::uint32_t seed) : end_(end), random_(seed) {}

  void run(int num_rounds) {
    for (int round = 0; round < num_rounds; ++round) {
      start_message();
      while (messages_.size() > 40) finish_oldest();
    }
    while (!messages_.empty()) finish_oldest();
  }

 private:
  struct Message {
    Ticket ticket;
    Leg leg;
    Bytes memory;
    std::byte content;
  };

  // Every rank draws the same numbers, and takes its part in what it is a party to.
  void start_message() {
    const auto n = static_cast<std::uint32_t>(end_.num_ranks());
    const auto from = Rank{static_cast<std::int32_t>(random_() % n)};
    const auto to = Rank{static_cast<std::int32_t>((from.index() + 1 + random_() % (n - 1)) % n)};
    const Tag tag{static_cast<std::uint32_t>(random_() % 3)};
    const std::size_t size = random_() % 2000;
    const auto content = static_cast<std::byte>(random_());
    if (from != end_.rank() && to != end_.rank()) return;
    messages_.push_back({.ticket = {}, .leg = {}, .memory = Bytes(size), .content = content});
    Message& message = messages_.back();
    if (from == end_.rank()) {
      std::fill(message.memory.begin(), message.memory.end(), content);
      message.leg = send_leg(to, tag, message.memory);
    } else {
      message.leg = receive_leg(from, tag, message.memory);
    }
    message.ticket = post(end_, message.leg);
  }

  void finish_oldest() {
    const Message& oldest = messages_.front();
    Result<Progress> progress = end_.poll(oldest.ticket, a_while);
    while (progress && *progress == Progress::pending) progress = end_.poll(oldest.ticket, a_while);
    ASSERT_TRUE(progress) << progress.error().message;
    EXPECT_EQ(*progress, Progress::done);
    EXPECT_EQ(std::count(oldest.memory.begin(), oldest.memory.end(), oldest.content),
              std::ssize(oldest.memory));
    messages_.pop_front();
  }

  Transport& end_;
  std::minstd_rand random_;
  std::deque<Message> messages_;  // does not move what it holds
};

TEST(Inproc, KeepsRandomTrafficOfFourRanksApart) {
  Ends ends = make_ends(4);
  std::vector<std::thread> threads;
  for (auto& end : ends) {
    threads.emplace_back([&end] { Talker(*end, 17).run(4000); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The receiver gives up at any moment; however the race ends, both sides must agree about it.
TEST(Inproc, CancelRacesWithDelivery) {
  Ends ends = make_ends(2);
  constexpr std::uint32_t num_messages = 500;
  const Bytes message(256, std::byte{3});
  std::thread sender([&] {
    for (std::uint32_t i = 0; i < num_messages; ++i) {
      const Ticket ticket = post(*ends[0], send_leg(Rank{1}, Tag{i}, message));
      Result<Progress> progress = Progress::pending;
      while (progress && *progress == Progress::pending) progress = ends[0]->poll(ticket, a_while);
      ASSERT_TRUE(progress) << progress.error().message;
      EXPECT_EQ(*progress, Progress::done);
    }
  });
  int num_given_up = 0;
  for (std::uint32_t i = 0; i < num_messages;) {
    Bytes memory(256);
    const Ticket ticket = post(*ends[1], receive_leg(Rank{0}, Tag{i}, memory));
    ends[1]->cancel(ticket);
    Result<Progress> ending = Progress::pending;
    while (ending && *ending == Progress::pending) ending = ends[1]->poll(ticket, a_while);
    ASSERT_TRUE(ending) << ending.error().message;
    if (*ending == Progress::cancelled) {
      EXPECT_EQ(memory, Bytes(256));  // the message waits for the next receive
      ++num_given_up;
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(memory, message);
    ++i;
  }
  sender.join();
  RecordProperty("given_up", num_given_up);
}

// Ends close while their peers are posting to them and copying from them.
TEST(Inproc, ClosesWhilePeersAreBusy) {
  for (int round = 0; round < 50; ++round) {
    Ends ends = make_ends(3);
    std::vector<std::thread> threads;
    for (auto& end : ends) {
      threads.emplace_back([mine = std::move(end)]() mutable {
        Bytes message(20'000, std::byte{1});
        std::deque<Bytes> memory;  // one each: two peers may deliver at once
        for (int i = 0; i < 5; ++i) {
          for (Rank peer : ids<Rank>(3)) {
            if (peer == mine->rank()) continue;
            post(*mine, send_leg(peer, Tag{1}, message));
            post(*mine, receive_leg(peer, Tag{1}, memory.emplace_back(20'000)));
          }
        }
        mine.reset();
        std::fill(message.begin(), message.end(), std::byte{2});  // a race, were it still read
        for (Bytes& bytes : memory) std::fill(bytes.begin(), bytes.end(), std::byte{2});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace trimtab::test
