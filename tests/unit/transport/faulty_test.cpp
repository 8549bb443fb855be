// SPDX-License-Identifier: Apache-2.0
#include "support/arrived.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using verify::VirtualClock;

/// Rank 0's end is faulty, rank 1's is not; both are played by one thread.
class Faulty : public testing::Test {
 protected:
  void script(std::vector<Fault> faults) {
    auto ends = std::move(*make_inproc_transports(2));
    script_ = std::make_shared<FaultScript>(std::move(faults));
    faulty_ = std::make_unique<FaultyTransport>(std::move(ends[0]), script_, &clock_);
    peer_ = std::move(ends[1]);
  }

  Ticket send(const Bytes& message, Tag tag = Tag{1}) {
    const Leg leg = send_leg(Rank{1}, tag, message);
    const Result<Ticket> ticket = faulty_->post({&leg, 1});
    EXPECT_TRUE(ticket);
    return *ticket;
  }

  /// What rank 1 gets, or nothing.
  Bytes arrived(Tag tag = Tag{1}) { return test::arrived(*peer_, 8, tag); }

  VirtualClock clock_;
  std::shared_ptr<FaultScript> script_;
  std::unique_ptr<Transport> faulty_;
  std::unique_ptr<Transport> peer_;
  const Bytes one_ = Bytes(8, std::byte{1});
  const Bytes two_ = Bytes(8, std::byte{2});
};

TEST_F(Faulty, DroppedSendLooksDoneAndNeverArrives) {
  script({{.match = {.tag = Tag{1}}, .action = FaultAction::drop}});
  EXPECT_EQ(*faulty_->poll(send(one_), at_once), Progress::done);
  EXPECT_EQ(arrived(), Bytes());
  send(two_);
  EXPECT_EQ(arrived(), two_) << "a fault strikes once";
  EXPECT_EQ(script_->num_struck(), 1U);
}

TEST_F(Faulty, CorruptedSendArrivesWithOneByteInvertedAndLeavesTheSendersMemory) {
  script({{.match = {}, .action = FaultAction::corrupt}});
  const Ticket ticket = send(one_);
  Bytes expected = one_;
  expected[4] = std::byte{0xfe};
  EXPECT_EQ(arrived(), expected);
  EXPECT_EQ(*faulty_->poll(ticket, at_once), Progress::done);
  EXPECT_EQ(one_, Bytes(8, std::byte{1}));
}

TEST_F(Faulty, TellsWhichFaultsHaveStruck) {
  script({{.match = {}, .action = FaultAction::drop, .occurrence = 1},
          {.match = {}, .action = FaultAction::corrupt}});
  EXPECT_FALSE(script_->has_struck(0));
  EXPECT_FALSE(script_->has_struck(1));
  send(one_);
  EXPECT_FALSE(script_->has_struck(0));
  EXPECT_TRUE(script_->has_struck(1));
  send(one_);
  EXPECT_TRUE(script_->has_struck(0));
}

TEST_F(Faulty, MeansEveryTagButOne) {
  script({{.match = {.other_than = Tag{1}}, .action = FaultAction::drop}});
  send(one_, Tag{1});
  send(one_, Tag{2});
  EXPECT_EQ(arrived(Tag{1}), one_);
  EXPECT_EQ(arrived(Tag{2}), Bytes());
}

TEST_F(Faulty, DuplicatedSendArrivesTwice) {
  script({{.match = {}, .action = FaultAction::duplicate}});
  const Ticket ticket = send(one_);
  EXPECT_EQ(arrived(), one_);
  EXPECT_EQ(*faulty_->poll(ticket, at_once), Progress::done) << "the sender waits for one of them";
  EXPECT_EQ(arrived(), one_);
  EXPECT_EQ(arrived(), Bytes());
}

TEST_F(Faulty, DelayedSendIsOvertakenUntilReleased) {
  script({{.match = {}, .action = FaultAction::delay}});
  const Ticket held = send(one_);
  send(two_);
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::pending);
  EXPECT_EQ(arrived(), two_);
  EXPECT_EQ(arrived(), Bytes());
  script_->release_delayed();
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::pending);
  EXPECT_EQ(arrived(), one_);
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::done);
}

TEST_F(Faulty, DelayedReceiveIsPostedWhenReleased) {
  script({{.match = {.side = Side::receive}, .action = FaultAction::delay}});
  Bytes memory(8);
  const Leg receive = receive_leg(Rank{1}, Tag{1}, memory);
  const Ticket held = *faulty_->post({&receive, 1});
  const Leg send = send_leg(Rank{0}, Tag{1}, two_);
  const Ticket sent = *peer_->post({&send, 1});
  EXPECT_EQ(*peer_->poll(sent, at_once), Progress::pending);
  script_->release_delayed();
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::done);
  EXPECT_EQ(memory, two_);
}

TEST_F(Faulty, DelayedSendCanBeCancelledAndThenNeverArrives) {
  script({{.match = {}, .action = FaultAction::delay}});
  const Ticket held = send(one_);
  faulty_->cancel(held);
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::cancelled);
  script_->release_delayed();
  EXPECT_EQ(*faulty_->poll(send(two_, Tag{2}), at_once), Progress::pending);
  EXPECT_EQ(arrived(), Bytes());
}

TEST_F(Faulty, DelayedSendGoesWhenItsTimeIsOver) {
  script({{.match = {}, .action = FaultAction::delay, .hold = std::chrono::milliseconds(5)}});
  const Ticket held = send(one_);
  clock_.advance(std::chrono::milliseconds(4));
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::pending);
  EXPECT_EQ(arrived(), Bytes());
  clock_.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::pending);
  EXPECT_EQ(arrived(), one_);
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::done);
}

TEST_F(Faulty, DelaysThatEndTogetherKeepTheOrderOfPosting) {
  Fault fault;
  fault.action = FaultAction::delay;
  fault.until = clock_.now() + std::chrono::milliseconds(5);
  Fault next = fault;
  next.occurrence = 1;
  script({fault, next});
  const Ticket first = send(one_);
  clock_.advance(std::chrono::milliseconds(5));
  const Ticket second = send(two_);  // Its time has come already, but the first is still here.
  EXPECT_EQ(arrived(), Bytes());
  EXPECT_EQ(*faulty_->poll(second, at_once), Progress::pending);
  EXPECT_EQ(arrived(), one_);
  EXPECT_EQ(arrived(), two_);
  EXPECT_EQ(*faulty_->poll(first, at_once), Progress::done);
}

TEST_F(Faulty, AFaultThatIsAddedCountsFromThenOn) {
  script({});
  send(one_);
  EXPECT_EQ(arrived(), one_);
  script_->add({.match = {}, .action = FaultAction::drop, .occurrence = 1});
  send(one_);
  EXPECT_EQ(arrived(), one_);
  send(two_);
  EXPECT_EQ(arrived(), Bytes());
  EXPECT_EQ(script_->num_struck(), 1U);
}

TEST_F(Faulty, ReorderedSendArrivesBehindTheNextOfItsStream) {
  script({{.match = {}, .action = FaultAction::reorder}});
  const Ticket held = send(one_);
  const Ticket other = send(two_, Tag{2});
  EXPECT_EQ(arrived(Tag{2}), two_);
  EXPECT_EQ(arrived(), Bytes()) << "another stream does not count";
  const Ticket next = send(two_);
  EXPECT_EQ(arrived(), two_);
  EXPECT_EQ(arrived(), one_);
  for (const Ticket ticket : {held, other, next}) {
    EXPECT_EQ(*faulty_->poll(ticket, at_once), Progress::done);
  }
}

TEST_F(Faulty, FailedPostStartsNoLeg) {
  script({{.match = {.tag = Tag{2}}, .action = FaultAction::fail, .code = Errc::io}});
  const Leg legs[] = {send_leg(Rank{1}, Tag{1}, one_), send_leg(Rank{1}, Tag{2}, two_)};
  const Result<Ticket> ticket = faulty_->post(legs);
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().code, Errc::io);
  EXPECT_EQ(arrived(Tag{1}), Bytes());
  EXPECT_EQ(arrived(Tag{2}), Bytes());
}

TEST_F(Faulty, StrikesTheOccurrenceThatMatchesInEveryRespect) {
  script({{.match = {.peer = Rank{1}, .tag = Tag{3}, .size_bytes = 8},
           .action = FaultAction::drop,
           .occurrence = 1}});
  const Bytes longer(9);
  send(longer, Tag{3});  // another size
  send(one_, Tag{4});    // another tag
  send(one_, Tag{3});    // occurrence 0
  EXPECT_EQ(script_->num_struck(), 0U);
  EXPECT_EQ(*faulty_->poll(send(two_, Tag{3}), at_once), Progress::done);
  EXPECT_EQ(script_->num_struck(), 1U);
  EXPECT_EQ(arrived(Tag{4}), one_);
}

TEST_F(Faulty, OtherLegsOfTheTicketAreUnharmed) {
  script({{.match = {.tag = Tag{2}}, .action = FaultAction::drop}});
  const Leg legs[] = {send_leg(Rank{1}, Tag{1}, one_), send_leg(Rank{1}, Tag{2}, two_)};
  const Ticket ticket = *faulty_->post(legs);
  EXPECT_EQ(*faulty_->poll(ticket, at_once), Progress::pending);
  EXPECT_EQ(arrived(Tag{1}), one_);
  EXPECT_EQ(*faulty_->poll(ticket, at_once), Progress::done);
}

TEST_F(Faulty, ClosesWithFaultsUnderWay) {
  script({{.match = {}, .action = FaultAction::delay},
          {.match = {}, .action = FaultAction::duplicate, .occurrence = 1}});
  const Ticket held = send(one_);
  const Ticket doubled = send(two_);
  faulty_->close();
  EXPECT_EQ(*faulty_->poll(held, at_once), Progress::cancelled);
  EXPECT_EQ(*faulty_->poll(doubled, at_once), Progress::cancelled);
  EXPECT_EQ(faulty_->post({}).error().code, Errc::closed);
}

}  // namespace
}  // namespace trimtab::test
