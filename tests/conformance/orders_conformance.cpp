// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/transport_conformance.hpp"

// Ranks that post the same messages in unlike orders.

namespace trimtab::test {
namespace {

constexpr std::uint32_t num_messages = 90;

/// Each size is another, so that a message in the wrong place shows; all are too large to go before they are
/// asked for.
std::size_t size_of(std::uint32_t message) { return 40'000 + message * 16; }

/// Of two ranks the lower goes up, the higher down.
std::uint32_t in_order_of(Rank rank, Rank peer, std::uint32_t i) {
  return rank < peer ? i : num_messages - 1 - i;
}

// pytorch/pytorch#174288, pytorch/pytorch#174942, sgl-project/sglang#30829: of many sends and receives in one
// group, halves that belong together land in different launches on the two sides, and wait for ever.
// NVIDIA/nccl#2130: so do groups that are not each other's mirror image.
TEST_P(TransportConformance, DeliversWhatRanksPostInOppositeOrders) {
  run([](End end) {
    std::vector<Bytes> sent;
    std::vector<Bytes> received;
    std::vector<Leg> legs;
    for (std::uint32_t i = 0; i < num_messages; ++i) {
      for (Rank peer : others(*end)) {
        const std::uint32_t message = in_order_of(end->rank(), peer, i);
        sent.push_back(pattern(end->rank(), peer, message, size_of(message)));
        received.emplace_back(size_of(message));
        legs.push_back(send_leg(peer, Tag{message}, sent.back()));
        legs.push_back(receive_leg(peer, Tag{message}, received.back()));
      }
    }
    // What one ticket holds may wait for what another does at the peer.
    std::vector<Ticket> tickets;
    const std::size_t half = legs.size() / 2;
    tickets.push_back(post(*end, std::span(legs).first(half)));
    tickets.push_back(post(*end, std::span(legs).subspan(half)));
    for (Ticket ticket : tickets) expect_done(*end, ticket);
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < num_messages; ++i) {
      for (Rank peer : others(*end)) {
        const std::uint32_t message = in_order_of(end->rank(), peer, i);
        EXPECT_TRUE(received[at++] == pattern(peer, end->rank(), message, size_of(message)))
            << "message " << message;
      }
    }
    meet(*end);
  });
}

TEST_P(TransportConformance, DeliversInOrderWhatWasSentBeforeItsReceives) {
  run([](End end) {
    std::vector<Bytes> sent;
    std::vector<Ticket> tickets;
    const std::vector<std::size_t> sizes{10, 70'000, 0, 300, 70'000, 10};
    for (std::uint32_t m = 0; m < sizes.size(); ++m) {
      for (Rank peer : others(*end)) {
        sent.push_back(pattern(end->rank(), peer, m, sizes[m]));
        tickets.push_back(post(*end, send_leg(peer, Tag{3}, sent.back())));
      }
    }
    meet(*end);
    for (std::uint32_t m = 0; m < sizes.size(); ++m) {
      for (Rank peer : others(*end)) {
        EXPECT_TRUE(receive(*end, peer, Tag{3}, sizes[m]) == pattern(peer, end->rank(), m, sizes[m]))
            << "message " << m;
      }
    }
    for (Ticket ticket : tickets) expect_done(*end, ticket);
    meet(*end);
  });
}

}  // namespace
}  // namespace trimtab::test
