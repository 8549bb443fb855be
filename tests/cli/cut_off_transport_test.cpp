// SPDX-License-Identifier: Apache-2.0
#include "app/cut_off_transport.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace trimtab {
namespace {

constexpr std::chrono::nanoseconds at_once{0};
constexpr Tag tag{1};

/// Rank 0 may be cut off from rank 1.
class CutOff : public testing::Test {
 protected:
  void SetUp() override {
    auto ends = *make_inproc_transports(2);
    cut_ = std::make_unique<CutOffTransport>(std::move(ends[0]), is_cut_);
    other_ = std::move(ends[1]);
  }

  Progress progress_of(Transport& end, Ticket ticket) { return end.poll(ticket, at_once).value(); }
  Ticket post(Transport& end, const Leg& leg) { return end.post({&leg, 1}).value(); }

  std::shared_ptr<std::atomic<bool>> is_cut_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Transport> cut_;
  std::unique_ptr<Transport> other_;
  std::array<std::byte, 4> sent_{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> received_{};
};

TEST_F(CutOff, IsNotNoticedBeforeTheMoment) {
  const Ticket receive = post(*cut_, receive_leg(Rank{1}, tag, received_));
  EXPECT_EQ(progress_of(*cut_, receive), Progress::pending);
  EXPECT_EQ(progress_of(*other_, post(*other_, send_leg(Rank{0}, tag, sent_))), Progress::done);
  EXPECT_EQ(progress_of(*cut_, receive), Progress::done);
  EXPECT_EQ(received_, sent_);
  EXPECT_EQ(cut_->poll(receive, at_once).error().code, Errc::not_found);
}

TEST_F(CutOff, LosesWhatIsSentAndWhatComesAfterTheMoment) {
  const Ticket before = post(*cut_, receive_leg(Rank{1}, tag, received_));
  const Ticket awaited = post(*other_, receive_leg(Rank{0}, tag, received_));
  *is_cut_ = true;
  EXPECT_EQ(progress_of(*cut_, post(*cut_, send_leg(Rank{1}, tag, sent_))), Progress::done);
  EXPECT_EQ(progress_of(*other_, awaited), Progress::pending) << "it is lost";
  post(*other_, send_leg(Rank{0}, tag, sent_));
  const Ticket after = post(*cut_, receive_leg(Rank{1}, tag, received_));
  for (Ticket ticket : {before, after}) {
    EXPECT_EQ(progress_of(*cut_, ticket), Progress::pending);
    cut_->cancel(ticket);
    EXPECT_EQ(progress_of(*cut_, ticket), Progress::cancelled);
  }
}

TEST_F(CutOff, KnowsOfNoPeerThatIsGone) {
  *is_cut_ = true;
  other_->close();
  EXPECT_TRUE(cut_->take_peer_down_events().empty());
  const Ticket ticket = post(*cut_, receive_leg(Rank{1}, tag, received_));
  EXPECT_EQ(progress_of(*cut_, ticket), Progress::pending);
}

TEST_F(CutOff, CutsTheChannelsOpenedFromItToo) {
  const auto channel = cut_->open_channel().value();
  const auto others = other_->open_channel().value();
  *is_cut_ = true;
  const Ticket awaited = post(*others, receive_leg(Rank{0}, tag, received_));
  EXPECT_EQ(progress_of(*channel, post(*channel, send_leg(Rank{1}, tag, sent_))), Progress::done);
  EXPECT_EQ(progress_of(*others, awaited), Progress::pending);
}

}  // namespace
}  // namespace trimtab
