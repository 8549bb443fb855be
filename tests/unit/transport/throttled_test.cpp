// SPDX-License-Identifier: Apache-2.0
#include "support/arrived.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/inproc.hpp>
#include <trimtab/transport/throttled.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace trimtab::test {
namespace {

using verify::VirtualClock;

using std::chrono::milliseconds;

/// Rank 0's end carries one byte per millisecond, rank 1's is not throttled; both are played by one thread.
class Throttled : public testing::Test {
 protected:
  Throttled() {
    auto ends = std::move(*make_inproc_transports(2));
    throttled_ = std::make_unique<ThrottledTransport>(std::move(ends[0]), 1000.0, clock_);
    peer_ = std::move(ends[1]);
  }

  Ticket send(const Bytes& message) {
    const Leg leg = send_leg(Rank{1}, Tag{1}, message);
    return *throttled_->post({&leg, 1});
  }

  /// What rank 1 gets now, or nothing.
  Bytes arrived(std::size_t size) { return test::arrived(*peer_, size, Tag{1}); }

  VirtualClock clock_;
  std::unique_ptr<Transport> throttled_;
  std::unique_ptr<Transport> peer_;
  const Bytes ten_ = Bytes(10, std::byte{1});
  const Bytes five_ = Bytes(5, std::byte{2});
};

TEST_F(Throttled, SendTakesAsLongAsTheLinkNeeds) {
  const Ticket ticket = send(ten_);
  clock_.advance(milliseconds(9));
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::pending);
  EXPECT_EQ(arrived(10), Bytes());
  clock_.advance(milliseconds(1));
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::pending);
  EXPECT_EQ(arrived(10), ten_);
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::done);
}

TEST_F(Throttled, SendsGoOneAfterAnotherInOrder) {
  const Ticket first = send(ten_);
  const Ticket second = send(five_);
  clock_.advance(milliseconds(14));
  EXPECT_EQ(*throttled_->poll(second, at_once), Progress::pending);
  EXPECT_EQ(arrived(10), ten_);
  EXPECT_EQ(arrived(5), Bytes());
  clock_.advance(milliseconds(1));
  EXPECT_EQ(*throttled_->poll(second, at_once), Progress::pending);
  EXPECT_EQ(arrived(5), five_);
  EXPECT_EQ(*throttled_->poll(first, at_once), Progress::done);
}

TEST_F(Throttled, IdleTimeIsNotSavedUp) {
  clock_.advance(std::chrono::seconds(1));
  const Ticket ticket = send(ten_);
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::pending);
  EXPECT_EQ(arrived(10), Bytes());
}

TEST_F(Throttled, ReceivesAreNotHeldUp) {
  Bytes memory(10);
  const Leg receive = receive_leg(Rank{1}, Tag{1}, memory);
  const Ticket ticket = *throttled_->post({&receive, 1});
  const Leg sent = send_leg(Rank{0}, Tag{1}, ten_);
  static_cast<void>(*peer_->post({&sent, 1}));
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::done);
  EXPECT_EQ(memory, ten_);
}

TEST_F(Throttled, PollDoesNotWaitBeyondTheTimeOfAWithheldSend) {
  // Rank 1 answers only what it got: a poll that waited for the answer would wait for ever.
  const SteadyClock clock;
  auto ends = std::move(*make_inproc_transports(2));
  ThrottledTransport throttled(std::move(ends[0]), 10'000.0, clock);
  Bytes answer(10);
  const Leg legs[] = {send_leg(Rank{1}, Tag{1}, ten_), receive_leg(Rank{1}, Tag{1}, answer)};
  const Ticket ticket = *throttled.post(legs);
  const auto begun = clock.now();
  EXPECT_EQ(*throttled.poll(ticket, std::chrono::minutes(10)), Progress::pending);
  EXPECT_LT(clock.now() - begun, std::chrono::minutes(1));
  throttled.close();
}

TEST_F(Throttled, SaysAtOnceWhatIsWrongWithASend) {
  const Leg nowhere = send_leg(Rank{7}, Tag{1}, ten_);
  EXPECT_EQ(throttled_->post({&nowhere, 1}).error().code, Errc::invalid_argument);
  const Ticket ticket = send(five_);  // The refused one took no time on the link.
  clock_.advance(milliseconds(5));
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::pending);
  EXPECT_EQ(arrived(5), five_);
}

TEST_F(Throttled, WithheldSendCanBeCancelledAndThenNeverArrives) {
  const Ticket ticket = send(ten_);
  throttled_->cancel(ticket);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(*throttled_->poll(ticket, at_once), Progress::cancelled);
  EXPECT_EQ(arrived(10), Bytes());
}

TEST_F(Throttled, ClosesWithSendsUnderWay) {
  const Ticket ticket = send(ten_);
  throttled_->close();
  EXPECT_EQ(throttled_->post({}).error().code, Errc::closed);
  static_cast<void>(throttled_->poll(ticket, at_once));
}

}  // namespace
}  // namespace trimtab::test
