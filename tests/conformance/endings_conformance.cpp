// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/transport_conformance.hpp"

#include <algorithm>

// How tickets, messages and ends end otherwise than well.

namespace trimtab::test {
namespace {

constexpr std::chrono::nanoseconds at_once{0};
constexpr std::byte guard{0xa5};

TEST_P(TransportConformance, ForgetsTicketOnceItIsTerminal) {
  run([](End end) {
    const Ticket ticket = post(*end, std::span<const Leg>());
    expect_done(*end, ticket);
    EXPECT_EQ(end->poll(ticket, at_once).error().code, Errc::not_found);
    end->cancel(ticket);  // ignored
  });
}

TEST_P(TransportConformance, DoesNotFindTicketThatWasNeverPosted) {
  run([](End end) {
    EXPECT_EQ(end->poll(Ticket{12'345}, at_once).error().code, Errc::not_found);
    end->cancel(Ticket{12'345});
  });
}

TEST_P(TransportConformance, LeavesTicketPendingUntilItsPeerPosts) {
  NEEDS_PEERS();
  run([](End end) {
    Bytes memory(8);
    Ticket ticket;
    if (end->rank() == Rank{1}) {
      ticket = post(*end, receive_leg(Rank{0}, Tag{1}, memory));
      EXPECT_EQ(*end->poll(ticket, at_once), Progress::pending);
      EXPECT_EQ(*end->poll(ticket, std::chrono::microseconds(200)), Progress::pending);
    }
    meet(*end);
    if (end->rank() == Rank{0}) send(*end, Rank{1}, Tag{1}, pattern(Rank{0}, Rank{1}, 1, 8));
    if (end->rank() == Rank{1}) {
      expect_done(*end, ticket);
      EXPECT_EQ(memory, pattern(Rank{0}, Rank{1}, 1, 8));
    }
  });
}

TEST_P(TransportConformance, RefusesPeersItCannotReachBeforeAnyLegStarts) {
  run([&](End end) {
    Bytes memory(8, guard);
    const Bytes message(8);
    for (Rank wrong : {end->rank(), Rank{-1}, Rank{num_ranks()}}) {
      std::vector<Leg> legs;
      for (Rank peer : others(*end)) legs.push_back(receive_leg(peer, Tag{2}, memory));
      legs.push_back(send_leg(wrong, Tag{2}, message));
      const Result<Ticket> ticket = end->post(legs);
      ASSERT_FALSE(ticket);
      EXPECT_EQ(ticket.error().code, Errc::invalid_argument);
    }
    // Had a leg started, it would take the message meant for the next receive.
    std::vector<Bytes> received(others(*end).size(), Bytes(8));
    std::vector<Bytes> sent(received.size());
    std::vector<Leg> legs;
    for (std::size_t i = 0; i < received.size(); ++i) {
      const Rank peer = others(*end)[i];
      sent[i] = pattern(end->rank(), peer, 1, 8);
      legs.push_back(receive_leg(peer, Tag{2}, received[i]));
      legs.push_back(send_leg(peer, Tag{2}, sent[i]));
    }
    expect_done(*end, post(*end, legs));
    for (std::size_t i = 0; i < received.size(); ++i) {
      EXPECT_EQ(received[i], pattern(others(*end)[i], end->rank(), 1, 8));
    }
    EXPECT_EQ(memory, Bytes(8, guard));
  });
}

TEST_P(TransportConformance, RefusesTagAboveItsLargest) {
  NEEDS_PEERS();
  run([](End end) {
    const Tag too_large{end->capabilities().max_tag + 1};
    ASSERT_GT(too_large.value(), 0U);
    Bytes memory(8);
    const Leg leg = receive_leg(others(*end).front(), too_large, memory);
    const Result<Ticket> ticket = end->post({&leg, 1});
    ASSERT_FALSE(ticket);
    EXPECT_EQ(ticket.error().code, Errc::invalid_argument);
  });
}

TEST_P(TransportConformance, CancelsReceiveThatMetNothing) {
  NEEDS_PEERS();
  run([](End end) {
    if (end->rank() == Rank{1}) {
      Bytes memory(8, guard);
      const Ticket ticket = post(*end, receive_leg(Rank{0}, Tag{3}, memory));
      end->cancel(ticket);
      EXPECT_EQ(*finish(*end, ticket), Progress::cancelled);
      meet(*end);
      EXPECT_EQ(receive(*end, Rank{0}, Tag{3}, 8), pattern(Rank{0}, Rank{1}, 1, 8)) << "for the next receive";
      EXPECT_EQ(memory, Bytes(8, guard)) << "written after it was given up";
    } else {
      meet(*end);
      if (end->rank() == Rank{0}) send(*end, Rank{1}, Tag{3}, pattern(Rank{0}, Rank{1}, 1, 8));
    }
  });
}

TEST_P(TransportConformance, CancelledTicketIsCancelledAsAWholeThoughSomeLegsAreDone) {
  NEEDS_PEERS();
  run([](End end) {
    Bytes arrived(8);
    Bytes awaited(8, guard);
    Ticket ticket;
    if (end->rank() == Rank{1}) {
      const Leg legs[] = {receive_leg(Rank{0}, Tag{5}, awaited), receive_leg(Rank{0}, Tag{4}, arrived)};
      ticket = post(*end, legs);
    }
    meet(*end);
    if (end->rank() == Rank{0}) send(*end, Rank{1}, Tag{4}, pattern(Rank{0}, Rank{1}, 1, 8));
    meet(*end);
    if (end->rank() == Rank{1}) {
      EXPECT_EQ(*end->poll(ticket, at_once), Progress::pending);
      end->cancel(ticket);
      EXPECT_EQ(*finish(*end, ticket), Progress::cancelled);
      EXPECT_EQ(arrived, pattern(Rank{0}, Rank{1}, 1, 8));
      EXPECT_EQ(awaited, Bytes(8, guard));
    }
    meet(*end);  // an end that closes would be a lost peer
  });
}

TEST_P(TransportConformance, CancelOfAFinishedTicketChangesNothing) {
  NEEDS_PEERS();
  run([](End end) {
    const bool takes_part = end->rank().value() < 2;
    const Rank peer{1 - end->rank().value()};
    const Bytes message = pattern(end->rank(), peer, 1, 8);
    Bytes memory(8);
    Ticket ticket;
    if (takes_part) {
      const Leg legs[] = {send_leg(peer, Tag{7}, message), receive_leg(peer, Tag{7}, memory)};
      ticket = post(*end, legs);
    }
    meet(*end);
    if (!takes_part) return;
    end->cancel(ticket);
    EXPECT_EQ(*finish(*end, ticket), Progress::done);
    EXPECT_EQ(memory, pattern(peer, end->rank(), 1, 8));
  });
}

// MPI cannot cancel a send, so both ends are right; but the ticket must not lie about which one came.
TEST_P(TransportConformance, CancelledSendNeverArrivesAndFinishedOneDoes) {
  NEEDS_PEERS();
  run([](End end) {
    const Bytes first = pattern(Rank{0}, Rank{1}, 1, 8);
    const Bytes second = pattern(Rank{0}, Rank{1}, 2, 8);
    if (end->rank() == Rank{0}) {
      const Ticket ticket = post(*end, send_leg(Rank{1}, Tag{9}, first));
      end->cancel(ticket);
      const Result<Progress> ending = finish(*end, ticket);
      ASSERT_TRUE(ending);
      const Bytes verdict{static_cast<std::byte>(*ending)};
      send(*end, Rank{1}, Tag{10}, verdict);
      send(*end, Rank{1}, Tag{9}, second);
    }
    if (end->rank() == Rank{1}) {
      const auto ending = static_cast<Progress>(receive(*end, Rank{0}, Tag{10}, 1).front());
      if (ending == Progress::done) {
        EXPECT_EQ(receive(*end, Rank{0}, Tag{9}, 8), first);
      }
      EXPECT_EQ(receive(*end, Rank{0}, Tag{9}, 8), second);
    }
  });
}

TEST_P(TransportConformance, RefusesEverythingOnceClosed) {
  run([](End end) {
    Bytes memory(8, guard);
    std::vector<Ticket> pending;
    for (Rank peer : others(*end)) pending.push_back(post(*end, receive_leg(peer, Tag{11}, memory)));
    meet(*end);
    end->close();
    end->close();
    EXPECT_EQ(end->post({}).error().code, Errc::closed);
    EXPECT_EQ(end->open_channel().error().code, Errc::closed);
    EXPECT_EQ(end->poll(Ticket{12'345}, at_once).error().code, Errc::closed);
    for (Ticket ticket : pending) EXPECT_EQ(*finish(*end, ticket), Progress::cancelled);
    end->join();
    end->join();
    EXPECT_EQ(end->post({}).error().code, Errc::closed);
    EXPECT_EQ(memory, Bytes(8, guard));
  });
}

// A rolled back step leaves sends that nobody will ever receive.
TEST_P(TransportConformance, EndsWithMessagesThatNobodyReceived) {
  NEEDS_PEERS();
  run([](End end) {
    const Bytes message = pattern(end->rank(), Rank{0}, 1, 5'000'000);
    for (Rank peer : others(*end)) post(*end, send_leg(peer, Tag{12}, message));
    meet(*end);
    end->close();
    end->join();
    EXPECT_TRUE(message == pattern(end->rank(), Rank{0}, 1, 5'000'000));
  });
}

TEST_P(TransportConformance, TellsOfEachClosedPeerOnceWhereItIsFaultTolerant) {
  NEEDS_PEERS();
  run([](End end) {
    const Result<End> channel = end->open_channel();
    ASSERT_TRUE(channel) << channel.error().message;
    EXPECT_TRUE((*channel)->take_peer_down_events().empty());
    meet(*end);
    if (end->rank() == Rank{1}) (*channel)->close();
    meet(*end);
    if (end->rank() != Rank{1}) {
      const bool tells = end->capabilities().is_fault_tolerant;
      EXPECT_EQ((*channel)->take_peer_down_events(), tells ? std::vector{Rank{1}} : std::vector<Rank>{});
      EXPECT_TRUE((*channel)->take_peer_down_events().empty());
      EXPECT_TRUE(end->take_peer_down_events().empty()) << "the other channel lives";
    }
    meet(*end);
  });
}

void drop_and_lose(Transport& end, Rank peer) {
  Bytes memory(8, guard);
  const Bytes message(5'000'000);
  const Ticket tickets[] = {post(end, receive_leg(peer, Tag{15}, memory)),
                            post(end, send_leg(peer, Tag{16}, message))};
  end.drop_peer(peer);
  end.drop_peer(peer);
  end.drop_peer(end.rank());
  for (Ticket ticket : tickets) {
    const Result<Progress> lost = finish(end, ticket);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code, Errc::peer_lost);
    end.cancel(ticket);
    EXPECT_EQ(*finish(end, ticket), Progress::cancelled);
  }
  EXPECT_EQ(end.take_peer_down_events(), std::vector{peer});
  EXPECT_EQ(memory, Bytes(8, guard));
}

TEST_P(TransportConformance, DroppedPeerIsGoneForTheOneThatDropsIt) {
  NEEDS_PEERS();
  run([](End end) {
    const Result<End> opened = end->open_channel();
    ASSERT_TRUE(opened) << opened.error().message;
    Transport& channel = **opened;
    const bool drops = end->rank() == Rank{0} && end->capabilities().drops_peers;
    if (drops) drop_and_lose(channel, Rank{1});
    meet(*end);  // The other channel lives.
    if (channel.rank() == Rank{1} && end->capabilities().drops_peers) channel.close();
    meet(*end);
    if (drops) {
      EXPECT_TRUE(channel.take_peer_down_events().empty()) << "it was told";
    }
    meet(*end);  // an end that closes would be a lost peer
  });
}

TEST_P(TransportConformance, DropOfAPeerChangesNothingWhereItCannotBe) {
  NEEDS_PEERS();
  run([](End end) {
    if (end->capabilities().drops_peers) return;
    const Bytes message = pattern(Rank{0}, Rank{1}, 1, 8);
    if (end->rank() == Rank{0}) {
      end->drop_peer(Rank{1});
      send(*end, Rank{1}, Tag{17}, message);
    }
    if (end->rank() == Rank{1}) {
      EXPECT_EQ(receive(*end, Rank{0}, Tag{17}, 8), message);
    }
  });
}

TEST_P(TransportConformance, KeepsChannelsApart) {
  NEEDS_PEERS();
  run([](End end) {
    Result<End> a = end->open_channel();
    Result<End> b = end->open_channel();
    ASSERT_TRUE(a && b);
    EXPECT_EQ((*a)->rank(), end->rank());
    EXPECT_EQ((*a)->num_ranks(), end->num_ranks());
    Transport* const channels[] = {end.get(), a->get(), b->get()};
    std::vector<Bytes> sent;
    std::vector<Ticket> tickets;
    for (std::uint32_t c = 0; c < 3 && end->rank() == Rank{0}; ++c) {
      sent.push_back(pattern(Rank{0}, Rank{1}, c, 50));
      tickets.push_back(post(*channels[c], send_leg(Rank{1}, Tag{13}, sent.back())));
    }
    meet(*end);
    for (std::uint32_t c = 3; c-- > 0 && end->rank() == Rank{1};) {
      EXPECT_EQ(receive(*channels[c], Rank{0}, Tag{13}, 50), pattern(Rank{0}, Rank{1}, c, 50)) << c;
    }
    for (std::uint32_t c = 0; c < tickets.size(); ++c) expect_done(*channels[c], tickets[c]);
  });
}

TEST_P(TransportConformance, ChannelOutlivesTheOneItWasOpenedFrom) {
  NEEDS_PEERS();
  run([](End end) {
    Result<End> channel = end->open_channel();
    ASSERT_TRUE(channel);
    end.reset();
    const Bytes message = pattern(Rank{0}, Rank{1}, 1, 70'000);
    if ((*channel)->rank() == Rank{0}) send(**channel, Rank{1}, Tag{14}, message);
    if ((*channel)->rank() == Rank{1}) {
      EXPECT_EQ(receive(**channel, Rank{0}, Tag{14}, 70'000), message);
    }
  });
}

}  // namespace
}  // namespace trimtab::test
