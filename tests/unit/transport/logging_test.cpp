// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/inproc.hpp>
#include <trimtab/transport/logging.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::chrono::nanoseconds at_once{0};

class Logging : public testing::Test {
 protected:
  Logging() {
    auto ends = std::move(*make_inproc_transports(2));
    logging_ = std::make_unique<LoggingTransport>(
        std::move(ends[0]), [this](std::string_view line) { lines_.emplace_back(line); });
    peer_ = std::move(ends[1]);
  }

  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }

  std::vector<std::string> lines_;
  std::unique_ptr<Transport> logging_;
  std::unique_ptr<Transport> peer_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(8);
};

TEST_F(Logging, TellsOfEachLegAndOfTheEnd) {
  const Leg legs[] = {send_leg(Rank{1}, Tag{3}, memory_), receive_leg(Rank{1}, Tag{4}, memory_)};
  const Ticket ticket = *logging_->post(legs);
  EXPECT_THAT(take_lines(), ElementsAre("rank 0: ticket 1: send 8 bytes to rank 1, tag 3",
                                        "rank 0: ticket 1: receive 8 bytes from rank 1, tag 4"));
  EXPECT_EQ(*logging_->poll(ticket, at_once), Progress::pending);
  EXPECT_THAT(take_lines(), IsEmpty());
  logging_->cancel(ticket);
  EXPECT_EQ(*logging_->poll(ticket, at_once), Progress::cancelled);
  EXPECT_THAT(take_lines(), ElementsAre("rank 0: ticket 1: cancel", "rank 0: ticket 1: cancelled"));
}

TEST_F(Logging, TellsOfErrorsInTheirOwnWords) {
  const Leg leg = send_leg(Rank{9}, Tag{3}, memory_);
  const Result<Ticket> refused = logging_->post({&leg, 1});
  ASSERT_FALSE(refused);
  EXPECT_THAT(take_lines(),
              ElementsAre("rank 0: refused: send 8 bytes to rank 9, tag 3: " + refused.error().message));
  const Result<Progress> unknown = logging_->poll(Ticket{99}, at_once);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(take_lines(), ElementsAre("rank 0: ticket 99: " + unknown.error().message));
}

TEST_F(Logging, TellsOfPeersThatAreDownAndOfItsOwnClose) {
  peer_->close();
  peer_.reset();
  static_cast<void>(logging_->take_peer_down_events());
  logging_->close();
  EXPECT_THAT(take_lines(), ElementsAre("rank 0: rank 1 is down", StartsWith("rank 0: close")));
}

}  // namespace
}  // namespace trimtab::test
