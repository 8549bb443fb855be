// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/thread_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include "grouped_end.hpp"

// The transport of examples/03_your_own_transport.cpp: how a back-end of one's own registers.

namespace trimtab::test {
namespace {

class GroupedFixture final : public TransportFixture {
 public:
  void run(std::int32_t num_ranks, const std::function<void(End)>& body) override {
    run_on_threads(own::make_grouped_transports(num_ranks), body);
  }
};

ConformanceParam grouped(std::int32_t num_ranks) {
  return {[] { return std::make_unique<GroupedFixture>(); }, num_ranks};
}

INSTANTIATE_TEST_SUITE_P(Grouped, TransportConformance, testing::Values(grouped(1), grouped(2), grouped(4)),
                         name_of);

// One thread drives all ends here, so that it is known how far each has come.

constexpr std::chrono::nanoseconds at_once{0};
constexpr Tag tag{1};

/// Looks at both ends in turn until the ticket of `end` is terminal.
Result<Progress> finish_beside(Transport& end, Ticket ticket, Transport& other) {
  for (;;) {
    Result<Progress> progress = end.poll(ticket, at_once);
    if (!progress || *progress != Progress::pending) return progress;
    (void)other.take_peer_down_events();  // looks
  }
}

TEST(GroupedEnd, KeepsALostLegPostedUntilItIsCancelled) {
  const std::vector<End> ends = own::make_grouped_transports(2);
  Bytes memory(1000);
  const Ticket ticket = post(*ends[0], receive_leg(Rank{1}, tag, memory));
  ends[1]->close();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ends[0]->poll(ticket, at_once).error().code, Errc::peer_lost);
  ends[0]->cancel(ticket);
  EXPECT_EQ(*ends[0]->poll(ticket, at_once), Progress::cancelled);
  EXPECT_EQ(ends[0]->poll(ticket, at_once).error().code, Errc::not_found);
}

TEST(GroupedEnd, FinishesWhatRanAtThePeerBeforeItClosed) {
  const std::vector<End> ends = own::make_grouped_transports(2);
  const Bytes message = pattern(Rank{0}, Rank{1}, 1, 100'000);
  Bytes memory(message.size());
  const Ticket sent = post(*ends[0], send_leg(Rank{1}, tag, message));
  const Ticket received = post(*ends[1], receive_leg(Rank{0}, tag, memory));
  EXPECT_EQ(*finish_beside(*ends[1], received, *ends[0]), Progress::done);
  ends[1]->close();
  expect_done(*ends[0], sent);
  EXPECT_TRUE(memory == message);
}

TEST(GroupedEnd, SendThatHasMetItsReceiveIsDoneThoughItWasCancelled) {
  const std::vector<End> ends = own::make_grouped_transports(2);
  const Bytes message = pattern(Rank{0}, Rank{1}, 1, 100'000);
  Bytes memory(message.size());
  const Ticket sent = post(*ends[0], send_leg(Rank{1}, tag, message));
  const Ticket received = post(*ends[1], receive_leg(Rank{0}, tag, memory));
  EXPECT_EQ(*ends[1]->poll(received, at_once), Progress::pending) << "granted";
  ends[0]->cancel(sent);
  EXPECT_EQ(*ends[1]->poll(received, at_once), Progress::pending) << "asked to forget it";
  EXPECT_EQ(*finish_beside(*ends[0], sent, *ends[1]), Progress::done);
  expect_done(*ends[1], received);
  EXPECT_TRUE(memory == message);
}

TEST(GroupedEnd, GetsTheMemoryOfAGroupBackThatItsPeerNeverLaunches) {
  const std::vector<End> ends = own::make_grouped_transports(3);
  Bytes memory(1000);
  const Bytes message = pattern(Rank{1}, Rank{0}, 1, 1000);
  const Ticket received = post(*ends[0], receive_leg(Rank{1}, tag, memory));
  post(*ends[1], send_leg(Rank{0}, tag, message));
  EXPECT_EQ(*ends[0]->poll(received, at_once), Progress::pending) << "launched, at this side";
  ends[0]->cancel(received);
  EXPECT_EQ(*ends[0]->poll(received, at_once), Progress::pending) << "it has met its other half";
  ends[1]->close();
  EXPECT_EQ(*ends[0]->poll(received, at_once), Progress::cancelled);
  EXPECT_EQ(memory, Bytes(1000));

  const Bytes other = pattern(Rank{0}, Rank{2}, 1, 1000);
  const Ticket sent = post(*ends[0], send_leg(Rank{2}, tag, other));
  const Ticket taken = post(*ends[2], receive_leg(Rank{0}, tag, memory));
  EXPECT_EQ(*finish_beside(*ends[0], sent, *ends[2]), Progress::done) << "other pairs go on";
  expect_done(*ends[2], taken);
  EXPECT_EQ(memory, other);
}

}  // namespace
}  // namespace trimtab::test
