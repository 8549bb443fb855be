// SPDX-License-Identifier: Apache-2.0
#include "conformance/transport_conformance.hpp"

#include "conformance/ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

namespace trimtab::test {

std::string name_of(const testing::TestParamInfo<ConformanceParam>& info) {
  return fmt::format("{}_ranks", info.param.num_ranks);
}

namespace {

constexpr std::byte guard{0xa5};

TEST_P(TransportConformance, KnowsItsRankAndHowManyThereAre) {
  run([&](End end) {
    EXPECT_EQ(end->num_ranks(), num_ranks());
    EXPECT_TRUE(ids<Rank>(num_ranks()).contains(end->rank()));
  });
}

TEST_P(TransportConformance, KeepsItsCapabilities) {
  run([&](End end) {
    const Capabilities before = end->capabilities();
    EXPECT_FALSE(before.name.empty());
    EXPECT_GE(before.max_tag, 32'767U) << "the least that MPI promises";
    const Result<End> channel = end->open_channel();
    ASSERT_TRUE(channel) << channel.error().message;
    meet(*end);
    end->close();
    for (const Capabilities& after : {end->capabilities(), (*channel)->capabilities()}) {
      EXPECT_EQ(after.name, before.name);
      EXPECT_EQ(after.is_fault_tolerant, before.is_fault_tolerant);
      EXPECT_EQ(after.max_tag, before.max_tag);
      EXPECT_EQ(after.buffer_bytes, before.buffer_bytes);
    }
  });
}

TEST_P(TransportConformance, ReachesEveryOtherRankAndNotItself) {
  run([&](End end) {
    const auto n = static_cast<std::size_t>(num_ranks());
    Bytes mine;
    for (Rank peer : ids<Rank>(num_ranks())) mine.push_back(std::byte{end->can_reach(peer)});
    EXPECT_EQ(mine[end->rank().index()], std::byte{0});
    EXPECT_FALSE(end->can_reach(Rank{-1}));
    EXPECT_FALSE(end->can_reach(Rank{num_ranks()}));

    Bytes all(n * n);
    ASSERT_TRUE(all_gather(*end, SteadyClock(), {.tag = Tag{1}}, mine, all));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) EXPECT_EQ(all[a * n + b], all[b * n + a]) << a << " and " << b;
    }
  });
}

TEST_P(TransportConformance, FinishesTicketWithoutLegs) {
  run([&](End end) { expect_done(*end, post(*end, std::span<const Leg>())); });
}

TEST_P(TransportConformance, DeliversInOrderPerPeerAndTag) {
  NEEDS_PEERS();
  run([&](End end) {
    constexpr std::uint32_t num_messages = 50;
    std::vector<Bytes> sent;
    std::vector<Bytes> received;
    std::vector<Ticket> tickets;
    for (std::uint32_t m = 0; m < num_messages; ++m) {
      for (Rank peer : others(*end)) {
        sent.push_back(pattern(end->rank(), peer, m, 1 + m * 7));
        received.emplace_back(1 + m * 7);
        tickets.push_back(post(*end, send_leg(peer, Tag{3}, sent.back())));
        tickets.push_back(post(*end, receive_leg(peer, Tag{3}, received.back())));
      }
    }
    for (Ticket ticket : tickets) expect_done(*end, ticket);
    std::size_t at = 0;
    for (std::uint32_t m = 0; m < num_messages; ++m) {
      for (Rank peer : others(*end)) {
        EXPECT_EQ(received[at++], pattern(peer, end->rank(), m, 1 + m * 7)) << "message " << m;
      }
    }
  });
}

TEST_P(TransportConformance, DoesNotMixTags) {
  NEEDS_PEERS();
  constexpr std::uint32_t num_tags = 8;
  run([](End end) {
    std::vector<Bytes> sent;
    std::vector<Ticket> tickets;
    for (std::uint32_t tag = 0; tag < num_tags && end->rank() == Rank{0}; ++tag) {
      sent.push_back(pattern(Rank{0}, Rank{1}, tag, 64));
      tickets.push_back(post(*end, send_leg(Rank{1}, Tag{tag}, sent.back())));
    }
    meet(*end);
    for (std::uint32_t tag = num_tags; tag-- > 0 && end->rank() == Rank{1};) {
      EXPECT_EQ(receive(*end, Rank{0}, Tag{tag}, 64), pattern(Rank{0}, Rank{1}, tag, 64)) << "tag " << tag;
    }
    for (Ticket ticket : tickets) expect_done(*end, ticket);
  });
}

TEST_P(TransportConformance, UsesItsLargestTag) {
  NEEDS_PEERS();
  run([](End end) {
    const Tag largest{end->capabilities().max_tag};
    const Bytes message = pattern(Rank{0}, Rank{1}, 9, 32);
    if (end->rank() == Rank{0}) send(*end, Rank{1}, largest, message);
    if (end->rank() == Rank{1}) {
      EXPECT_EQ(receive(*end, Rank{0}, largest, 32), message);
    }
  });
}

TEST_P(TransportConformance, CompletesManyLegsInOneTicket) {
  NEEDS_PEERS();
  run([](End end) {
    constexpr std::uint32_t num_messages = 200;
    std::vector<Bytes> memory;
    std::vector<Leg> legs;
    for (std::uint32_t m = 0; m < num_messages; ++m) {
      for (Rank peer : others(*end)) {
        memory.push_back(pattern(end->rank(), peer, m, 100));
        legs.push_back(send_leg(peer, Tag{m}, memory.back()));
        memory.emplace_back(100);
        legs.push_back(receive_leg(peer, Tag{m}, memory.back()));
      }
    }
    const Ticket ticket = post(*end, legs);
    legs.clear();  // legs may be freed on return
    expect_done(*end, ticket);
    std::size_t at = 1;
    for (std::uint32_t m = 0; m < num_messages; ++m) {
      for (Rank peer : others(*end)) {
        EXPECT_EQ(memory[at], pattern(peer, end->rank(), m, 100)) << "message " << m;
        at += 2;
      }
    }
  });
}

TEST_P(TransportConformance, FillsOnlyTheMessagesPartOfALargerReceive) {
  NEEDS_PEERS();
  run([](End end) {
    for (std::size_t size : {0U, 1U, 1000U, 200'000U}) {
      const Bytes message = pattern(Rank{0}, Rank{1}, 1, size);
      if (end->rank() == Rank{0}) send(*end, Rank{1}, Tag{4}, message);
      if (end->rank() != Rank{1}) continue;
      Bytes memory(size + 100, guard);
      expect_done(*end, post(*end, receive_leg(Rank{0}, Tag{4}, memory)));
      const std::span filled = std::span(memory).first(size);
      EXPECT_TRUE(std::ranges::equal(filled, message)) << size << " bytes";
      EXPECT_EQ(std::ranges::count(std::span(memory).subspan(size), guard), 100) << size << " bytes";
    }
  });
}

TEST_P(TransportConformance, RefusesMessageLargerThanItsReceive) {
  NEEDS_PEERS();
  run([](End end) {
    for (std::size_t size : {17U, 5000U, 3'000'000U}) {
      const Bytes message = pattern(Rank{0}, Rank{1}, 2, size);
      if (end->rank() == Rank{0}) send(*end, Rank{1}, Tag{21}, message);  // done for the sender
      if (end->rank() != Rank{1}) continue;
      Bytes memory(16 + 100, guard);
      const Ticket ticket = post(*end, receive_leg(Rank{0}, Tag{21}, std::span(memory).first(16)));
      const Result<Progress> progress = finish(*end, ticket);
      ASSERT_FALSE(progress) << size << " bytes";
      EXPECT_EQ(progress.error().code, Errc::invalid_argument);
      for (const std::string& said : {std::string("rank 0"), std::string("tag 21"), std::string("16 bytes"),
                                      fmt::format("{} bytes", size)}) {
        EXPECT_NE(progress.error().message.find(said), std::string::npos) << progress.error().message;
      }
      EXPECT_EQ(std::ranges::count(std::span(memory).subspan(16), guard), 100) << "written past its memory";
      EXPECT_EQ(finish(*end, ticket).error().code, Errc::not_found) << "the ticket is terminal";
    }
    meet(*end);
  });
}

TEST_P(TransportConformance, GoesOnAfterARefusedMessage) {
  NEEDS_PEERS();
  run([](End end) {
    const Bytes large = pattern(Rank{0}, Rank{1}, 1, 100);
    const Bytes next = pattern(Rank{0}, Rank{1}, 2, 10);
    if (end->rank() == Rank{0}) {
      send(*end, Rank{1}, Tag{5}, large);
      send(*end, Rank{1}, Tag{5}, next);
    }
    if (end->rank() == Rank{1}) {
      Bytes small(10);
      EXPECT_FALSE(finish(*end, post(*end, receive_leg(Rank{0}, Tag{5}, small))));
      EXPECT_EQ(receive(*end, Rank{0}, Tag{5}, 10), next);
    }
  });
}

TEST_P(TransportConformance, DeliversZeroLengthMessages) {
  NEEDS_PEERS();
  run([](End end) {
    if (end->rank() == Rank{0}) {
      const Ticket ticket = post(*end, send_leg(Rank{1}, Tag{6}, {}));
      meet(*end);
      expect_done(*end, ticket);
    } else if (end->rank() == Rank{1}) {
      const Ticket early = post(*end, receive_leg(Rank{0}, Tag{7}, {}));
      meet(*end);
      expect_done(*end, post(*end, receive_leg(Rank{0}, Tag{6}, {})));
      EXPECT_EQ(*end->poll(early, std::chrono::nanoseconds(0)), Progress::pending)
          << "nothing was sent for it";
      end->cancel(early);
      EXPECT_EQ(*finish(*end, early), Progress::cancelled);
    } else {
      meet(*end);
    }
    meet(*end);  // An end that has closed would be a lost peer to the others.
  });
}

TEST_P(TransportConformance, DeliversWhicheverSideIsPostedFirst) {
  NEEDS_PEERS();
  run([](End end) {
    for (Side first : {Side::send, Side::receive}) {
      for (std::size_t size : {8U, 100'000U}) {
        const Bytes message = pattern(Rank{0}, Rank{1}, 1, size);
        Bytes memory(size);
        const bool is_sender = end->rank() == Rank{0};
        const Leg leg = is_sender ? send_leg(Rank{1}, Tag{8}, message) : receive_leg(Rank{0}, Tag{8}, memory);
        const bool takes_part = end->rank().value() < 2;
        const bool is_first = leg.side == first;
        Ticket ticket;
        if (takes_part && is_first) ticket = post(*end, leg);
        meet(*end);
        if (takes_part && !is_first) ticket = post(*end, leg);
        if (takes_part) expect_done(*end, ticket);
        if (takes_part && !is_sender) {
          EXPECT_EQ(memory, message) << size << " bytes";
        }
        meet(*end);
      }
    }
  });
}

TEST_P(TransportConformance, DeliversLargeMessages) {
  NEEDS_PEERS();
  run([](End end) {
    constexpr std::size_t size = 16U << 20;
    if (end->rank().value() > 1) return;
    const Rank peer{1 - end->rank().value()};
    const Bytes message = pattern(end->rank(), peer, 1, size);
    Bytes memory(size);
    const Leg legs[] = {send_leg(peer, Tag{9}, message), receive_leg(peer, Tag{9}, memory)};
    expect_done(*end, post(*end, legs));
    EXPECT_TRUE(memory == pattern(peer, end->rank(), 1, size));
    EXPECT_TRUE(message == pattern(end->rank(), peer, 1, size)) << "sent memory is only read";
  });
}

std::size_t all_to_all_bytes(Rank from, Rank to, std::uint32_t round) {
  return static_cast<std::size_t>(from.value() * 31 + to.value() * 17) * round * 11;  // some are empty
}

/// The messages that the watchers of one stream were told of, in order.
using Told = std::vector<std::size_t>;

class OrderWatcher final : public LegWatcher {
 public:
  OrderWatcher(std::size_t message, Told& told) : message_(message), told_(told) {}
  void pass(std::size_t) noexcept override { told_.push_back(message_); }

 private:
  std::size_t message_;
  Told& told_;
};

/// Small messages could overtake large ones, which wait for their receive, and be told of first.
TEST_P(TransportConformance, TellsWatchersOfAStreamOneMessageAfterTheOther) {
  run([&](End end) {
    std::deque<Told> told;
    std::deque<OrderWatcher> watchers;
    std::deque<Bytes> memory;
    std::vector<Leg> legs;
    for (Rank peer : others(*end)) {
      Told& sent = told.emplace_back();
      Told& received = told.emplace_back();
      for (std::size_t size : {300'000U, 10U, 70'000U, 1'000'000U, 16U, 40'000U}) {
        const std::size_t message = watchers.size();
        legs.push_back(
            send_leg(peer, Tag{3}, memory.emplace_back(size), &watchers.emplace_back(message, sent)));
        legs.push_back(
            receive_leg(peer, Tag{3}, memory.emplace_back(size), &watchers.emplace_back(message, received)));
      }
    }
    expect_done(*end, post(*end, legs));
    for (const Told& of_stream : told) EXPECT_TRUE(std::ranges::is_sorted(of_stream));
    meet(*end);
  });
}

TEST_P(TransportConformance, ExchangesAllToAll) {
  run([](End end) {
    for (std::uint32_t round = 0; round < 20; ++round) {
      std::vector<Bytes> sent(static_cast<std::size_t>(end->num_ranks()));
      std::vector<Bytes> received(sent.size());
      std::vector<Leg> legs;
      for (Rank peer : others(*end)) {
        sent[peer.index()] = pattern(end->rank(), peer, round, all_to_all_bytes(end->rank(), peer, round));
        received[peer.index()].resize(all_to_all_bytes(peer, end->rank(), round));
        legs.push_back(receive_leg(peer, Tag{10}, received[peer.index()]));
        legs.push_back(send_leg(peer, Tag{10}, sent[peer.index()]));
      }
      expect_done(*end, post(*end, legs));
      for (Rank peer : others(*end)) {
        const std::size_t size = all_to_all_bytes(peer, end->rank(), round);
        EXPECT_EQ(received[peer.index()], pattern(peer, end->rank(), round, size)) << "round " << round;
      }
    }
  });
}

}  // namespace
}  // namespace trimtab::test
