// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/forked_ranks.hpp"

#include <trimtab/transport/ucx.hpp>

#include <algorithm>
#include <csignal>

// What only processes can do: die, and stop.

namespace trimtab::test {
namespace {

constexpr std::chrono::nanoseconds at_once{0};
constexpr std::byte poison{0xd7};

/// Runs `body` with the rank's end of a new channel.
template <class Body>
int with_end(const Bootstrap& bootstrap, const Body& body) {
  Result<UcxSession> session = UcxSession::start(bootstrap);
  EXPECT_TRUE(session) << session.error().message;
  if (!session) return 1;
  Result<std::unique_ptr<Transport>> end = make_ucx_transport(*session);
  EXPECT_TRUE(end) << end.error().message;
  if (!end) return 1;
  body(**end);
  return 0;
}

void exchange_with(Transport& end, Rank peer) {
  for (std::size_t size : {10U, 3'000'000U}) {
    const Bytes mine = pattern(end.rank(), peer, 7, size);
    Bytes theirs(size);
    const Leg legs[] = {send_leg(peer, Tag{50}, mine), receive_leg(peer, Tag{50}, theirs)};
    expect_done(end, post(end, legs));
    EXPECT_TRUE(theirs == pattern(peer, end.rank(), 7, size));
  }
}

void survive(Transport& end, Rank dead) {
  Bytes memory(100'000, poison);
  const Bytes message(100'000);
  const Ticket receive_ticket = post(end, receive_leg(dead, Tag{1}, memory));
  const Ticket send_ticket = post(end, send_leg(dead, Tag{2}, message));
  for (Ticket ticket : {receive_ticket, send_ticket}) {
    const Result<Progress> progress = finish(end, ticket);
    ASSERT_FALSE(progress);
    EXPECT_EQ(progress.error().code, Errc::peer_lost) << progress.error().message;
    EXPECT_NE(progress.error().message.find("rank 2"), std::string::npos) << progress.error().message;
    end.cancel(ticket);
    EXPECT_EQ(*finish(end, ticket), Progress::cancelled);
  }
  EXPECT_EQ(end.take_peer_down_events(), std::vector{dead});
  EXPECT_TRUE(end.take_peer_down_events().empty());
  exchange_with(end, Rank{1 - end.rank().value()});
  const auto channel = end.open_channel();
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_EQ((*channel)->take_peer_down_events(), std::vector{dead}) << "dead from its beginning";
  exchange_with(**channel, Rank{1 - end.rank().value()});
}

// The survivors' deadline is what a test can bear.
TEST(UcxDeaths, KilledPeerIsLostAndTheOthersGoOn) {
  ForkedRanks ranks(3, [](const Bootstrap& bootstrap, const ParentLine& parent) {
    return with_end(bootstrap, [&](Transport& end) {
      meet(end);
      parent.say_ready();
      if (end.rank() == Rank{2}) parent.await_go();
      survive(end, Rank{2});
    });
  });
  for (Rank rank : ids<Rank>(3)) ranks.await_ready(rank);
  ranks.signal(Rank{2}, SIGKILL);
  EXPECT_EQ(ranks.result(Rank{2}), -SIGKILL);
  EXPECT_EQ(ranks.result(Rank{0}), 0);
  EXPECT_EQ(ranks.result(Rank{1}), 0);
}

TEST(UcxDeaths, PeerKilledInTheMiddleOfAMessageIsLost) {
  ForkedRanks ranks(2, [](const Bootstrap& bootstrap, const ParentLine& parent) {
    return with_end(bootstrap, [&](Transport& end) {
      constexpr std::size_t size = 64U << 20;
      Bytes memory(size, poison);
      if (end.rank() == Rank{1}) {
        const Ticket ticket = post(end, send_leg(Rank{0}, Tag{1}, memory));
        while (*end.poll(ticket, at_once) == Progress::pending) {
        }
        return;
      }
      const Ticket ticket = post(end, receive_leg(Rank{1}, Tag{1}, memory));
      memory.front() = memory.back() = std::byte{0};
      while (memory.front() != poison) ASSERT_TRUE(end.poll(ticket, at_once));
      parent.say_ready();
      parent.await_go();
      const Result<Progress> progress = finish(end, ticket);
      ASSERT_FALSE(progress);
      EXPECT_EQ(progress.error().code, Errc::peer_lost);
      EXPECT_EQ(memory.back(), std::byte{0}) << "it had not arrived as a whole";
      end.cancel(ticket);
      EXPECT_EQ(*finish(end, ticket), Progress::cancelled);
    });
  });
  ranks.await_ready(Rank{0});
  ranks.signal(Rank{1}, SIGKILL);
  EXPECT_EQ(ranks.result(Rank{1}), -SIGKILL);
  ranks.go(Rank{0});
  EXPECT_EQ(ranks.result(Rank{0}), 0);
}

void end_beside_a_stopped_peer(Transport& end) {
  std::vector<Bytes> memory(8, Bytes(4U << 20, poison));
  std::vector<Ticket> sends;
  std::vector<Ticket> receives;
  const Bytes small(1000);
  for (int i = 0; i < 2000; ++i) sends.push_back(post(end, send_leg(Rank{1}, Tag{1}, small)));
  for (Bytes& one : memory) {
    sends.push_back(post(end, send_leg(Rank{1}, Tag{2}, one)));
    receives.push_back(post(end, receive_leg(Rank{1}, Tag{3}, one)));
  }
  EXPECT_EQ(*end.poll(receives.front(), std::chrono::milliseconds(20)), Progress::pending);
  const std::size_t num_done =
      std::erase_if(sends, [&](Ticket ticket) { return *end.poll(ticket, at_once) == Progress::done; });
  EXPECT_GT(num_done, 0U);
  EXPECT_LE(num_done * small.size(), end.capabilities().buffer_bytes) << "more than its peer has room for";
  for (Ticket ticket : sends) end.cancel(ticket);
  for (Ticket ticket : receives) {
    end.cancel(ticket);
    EXPECT_EQ(*end.poll(ticket, at_once), Progress::cancelled) << "a receive needs nobody to be given up";
  }
  for (Ticket ticket : sends) {
    EXPECT_EQ(*end.poll(ticket, at_once), Progress::cancelled) << "a send that was not granted needs nobody";
  }
  end.close();
  end.join();
}

void end_while_rank_1_is_stopped(ForkedRanks& ranks) {
  ranks.signal(Rank{1}, SIGSTOP);
  ranks.go(Rank{0});
  EXPECT_EQ(ranks.result(Rank{0}), 0);
  ranks.signal(Rank{1}, SIGCONT);
  ranks.go(Rank{1});
  EXPECT_EQ(ranks.result(Rank{1}), 0) << "it finds itself alone";
}

TEST(UcxDeaths, StoppedPeerHoldsNobodyUp) {
  ForkedRanks ranks(2, [](const Bootstrap& bootstrap, const ParentLine& parent) {
    return with_end(bootstrap, [&](Transport& end) {
      meet(end);
      parent.say_ready();
      parent.await_go();
      if (end.rank() == Rank{0}) end_beside_a_stopped_peer(end);
    });
  });
  for (Rank rank : ids<Rank>(2)) ranks.await_ready(rank);
  end_while_rank_1_is_stopped(ranks);
}

// UCX itself may write a receive for seconds after it was cancelled.
TEST(UcxDeaths, ReceiveCancelledInTheMiddleIsNotWrittenAgain) {
  ForkedRanks ranks(2, [](const Bootstrap& bootstrap, const ParentLine&) {
    return with_end(bootstrap, [&](Transport& end) {
      constexpr std::size_t size = 64U << 20;
      Bytes memory(size, std::byte{1});
      if (end.rank() == Rank{0}) {
        expect_done(end, post(end, send_leg(Rank{1}, Tag{1}, memory)));
        exchange_with(end, Rank{1});
        meet(end);
        return;
      }
      std::ranges::fill(memory, std::byte{0});
      const Ticket ticket = post(end, receive_leg(Rank{0}, Tag{1}, memory));
      while (memory.front() == std::byte{0}) ASSERT_TRUE(end.poll(ticket, at_once));
      end.cancel(ticket);
      ASSERT_EQ(*end.poll(ticket, at_once), Progress::cancelled);
      EXPECT_EQ(memory.back(), std::byte{0}) << "the message was in the middle";
      std::ranges::fill(memory, poison);
      exchange_with(end, Rank{0});
      meet(end);
      EXPECT_EQ(std::ranges::count(memory, poison), std::ssize(memory));
    });
  });
  EXPECT_EQ(ranks.result(Rank{0}), 0);
  EXPECT_EQ(ranks.result(Rank{1}), 0);
}

/// The receiver takes the first bytes, and then nothing until it is told to.
void receive_with_a_pause(Transport& end, const ParentLine& parent, const Bytes& message) {
  Bytes memory(message.size());
  const Ticket ticket = post(end, receive_leg(Rank{0}, Tag{1}, memory));
  while (memory.front() != message.front()) ASSERT_TRUE(end.poll(ticket, at_once));
  parent.say_ready();
  parent.await_go();
  while (*end.poll(ticket, std::chrono::milliseconds(100)) == Progress::pending) {
  }
  EXPECT_TRUE(memory == message);
  parent.say_ready();
}

/// The sender turns to other work when its send is done.
void send_and_turn_away(Transport& end, const ParentLine& parent, const Bytes& message) {
  const Ticket ticket = post(end, send_leg(Rank{1}, Tag{1}, message));
  const Result<Progress> progress = end.poll(ticket, std::chrono::milliseconds(10));
  parent.say_ready();
  if (*progress == Progress::pending) expect_done(end, ticket);
  parent.await_go();
}

// UCX may call a send complete when it has a copy, and need further calls to get it out. That happens where
// the message just fills what the system keeps for a connection, so many sizes are tried.
TEST(UcxDeaths, MessageThatIsDoneArrivesThoughItsSenderTurnsAway) {
  constexpr std::size_t num_sizes = 80;
  ForkedRanks ranks(2, [](const Bootstrap& bootstrap, const ParentLine& parent) {
    return with_end(bootstrap, [&](Transport& end) {
      const Bytes longest(num_sizes * 100'000, std::byte{0x5e});
      for (std::size_t i = 1; i <= num_sizes; ++i) {
        const Bytes message(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(i * 100'000));
        if (end.rank() == Rank{0}) {
          send_and_turn_away(end, parent, message);
        } else {
          receive_with_a_pause(end, parent, message);
        }
      }
      meet(end);
    });
  });
  for (std::size_t i = 0; i < num_sizes; ++i) {
    ranks.await_ready(Rank{1});
    ranks.await_ready(Rank{0});
    ranks.go(Rank{1});
    ranks.await_ready(Rank{1});
    ranks.go(Rank{0});
  }
  EXPECT_EQ(ranks.result(Rank{0}), 0);
  EXPECT_EQ(ranks.result(Rank{1}), 0);
}

TEST(UcxDeaths, WithdrawnSendLeavesItsPlaceToTheNext) {
  ForkedRanks ranks(2, [](const Bootstrap& bootstrap, const ParentLine&) {
    return with_end(bootstrap, [&](Transport& end) {
      constexpr std::size_t size = 1U << 20;
      const Bytes next = pattern(Rank{0}, Rank{1}, 2, size);
      if (end.rank() == Rank{0}) {
        const Bytes first = pattern(Rank{0}, Rank{1}, 1, size);
        const Ticket withdrawn = post(end, send_leg(Rank{1}, Tag{1}, first));
        end.cancel(withdrawn);
        EXPECT_EQ(*finish(end, withdrawn), Progress::cancelled);
        send(end, Rank{1}, Tag{1}, next);
        send(end, Rank{1}, Tag{2}, {});
      } else {
        const Ticket told = post(end, receive_leg(Rank{0}, Tag{2}, {}));
        EXPECT_EQ(*end.poll(told, std::chrono::milliseconds(20)), Progress::pending);
        EXPECT_TRUE(receive(end, Rank{0}, Tag{1}, size) == next);
        expect_done(end, told);
      }
      meet(end);
    });
  });
  EXPECT_EQ(ranks.result(Rank{0}), 0);
  EXPECT_EQ(ranks.result(Rank{1}), 0);
}

/// Its peer is stopped in the middle of the message.
void give_a_stopped_receiver_up(Transport& end, const ParentLine& parent) {
  const Bytes message(64U << 20);
  const Ticket ticket = post(end, send_leg(Rank{1}, Tag{1}, message));
  parent.say_ready();
  EXPECT_EQ(*end.poll(ticket, std::chrono::milliseconds(200)), Progress::pending);
  parent.await_go();
  end.cancel(ticket);
  EXPECT_EQ(*end.poll(ticket, std::chrono::milliseconds(200)), Progress::pending) << "UCX reads its memory";
  end.drop_peer(Rank{1});
  EXPECT_EQ(*finish(end, ticket), Progress::cancelled);
  exchange_with(end, Rank{2});
}

TEST(UcxDeaths, SendToAPeerThatIsStoppedEndsWhenThePeerIsDropped) {
  ForkedRanks ranks(3, [](const Bootstrap& bootstrap, const ParentLine& parent) {
    return with_end(bootstrap, [&](Transport& end) {
      if (end.rank() == Rank{0}) return give_a_stopped_receiver_up(end, parent);
      if (end.rank() == Rank{2}) return exchange_with(end, Rank{0});
      Bytes memory(64U << 20, poison);
      const Ticket ticket = post(end, receive_leg(Rank{0}, Tag{1}, memory));
      while (memory.front() == poison) ASSERT_TRUE(end.poll(ticket, at_once));
      parent.say_ready();
      parent.await_go();
      const Result<Progress> progress = finish(end, ticket);
      ASSERT_FALSE(progress);
      EXPECT_EQ(progress.error().code, Errc::peer_lost);
      end.cancel(ticket);
      EXPECT_EQ(*finish(end, ticket), Progress::cancelled);
    });
  });
  ranks.await_ready(Rank{0});
  ranks.await_ready(Rank{1});
  end_while_rank_1_is_stopped(ranks);
  EXPECT_EQ(ranks.result(Rank{2}), 0);
}

std::vector<Ticket> post_sends(Transport& end, const std::vector<Bytes>& messages) {
  std::vector<Ticket> tickets;
  for (const Bytes& message : messages) tickets.push_back(post(end, send_leg(Rank{1}, Tag{1}, message)));
  return tickets;
}

std::vector<Bytes> large_messages(std::uint32_t first) {
  constexpr std::size_t size = 1U << 20;
  return {pattern(Rank{0}, Rank{1}, first, size), pattern(Rank{0}, Rank{1}, first + 1, size)};
}

TEST(UcxDeaths, ReceivesWhoseSendsAreWithdrawnTakeTheNextInTheirOrder) {
  ForkedRanks ranks(2, [](const Bootstrap& bootstrap, const ParentLine& parent) {
    return with_end(bootstrap, [&](Transport& end) {
      const std::vector<Bytes> next = large_messages(3);
      if (end.rank() == Rank{0}) {
        const std::vector<Bytes> first = large_messages(1);
        const std::vector<Ticket> withdrawn = post_sends(end, first);
        send(end, Rank{1}, Tag{2}, {});
        parent.await_go();  // Now there are grants, of which this end knows nothing yet.
        for (Ticket ticket : withdrawn) end.cancel(ticket);
        for (Ticket ticket : withdrawn) EXPECT_EQ(*end.poll(ticket, at_once), Progress::cancelled);
        for (Ticket ticket : post_sends(end, next)) expect_done(end, ticket);
      } else {
        expect_done(end, post(end, receive_leg(Rank{0}, Tag{2}, {})));  // The offers came before.
        std::vector<Bytes> memory(2, Bytes(next.front().size()));
        std::vector<Ticket> tickets;
        for (Bytes& one : memory) tickets.push_back(post(end, receive_leg(Rank{0}, Tag{1}, one)));
        EXPECT_EQ(*end.poll(tickets.front(), at_once), Progress::pending);
        parent.say_ready();
        for (Ticket ticket : tickets) expect_done(end, ticket);
        EXPECT_TRUE(memory == next);
      }
      meet(end);
    });
  });
  ranks.await_ready(Rank{1});
  ranks.go(Rank{0});
  EXPECT_EQ(ranks.result(Rank{0}), 0);
  EXPECT_EQ(ranks.result(Rank{1}), 0);
}

}  // namespace
}  // namespace trimtab::test
