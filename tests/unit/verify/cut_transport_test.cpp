// SPDX-License-Identifier: Apache-2.0
#include "verify/cut_transport.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace trimtab::verify {
namespace {

constexpr std::chrono::nanoseconds at_once{0};
constexpr Tag tag{3};
using Message = std::array<std::byte, 4>;

/// The link of rank 0 to rank 1 may be cut; only rank 0's end knows.
class CutEnds : public testing::Test {
 protected:
  CutEnds() : ends_(*make_inproc_transports(3)) {
    cut_ = std::make_unique<CutTransport>(std::move(ends_[0]),
                                          [this](Rank peer) { return is_cut_ && peer == Rank{1}; });
  }

  static Progress progress_of(Transport& end, Ticket ticket) { return end.poll(ticket, at_once).value(); }
  static Ticket post(Transport& end, const Leg& leg) { return end.post({&leg, 1}).value(); }

  Message sent_{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  Message received_{};
  Message lost_{};
  std::vector<std::unique_ptr<Transport>> ends_;
  bool is_cut_ = false;
  std::unique_ptr<Transport> cut_;
};

TEST_F(CutEnds, AreNotNoticedBeforeTheMoment) {
  const Ticket receive = post(*cut_, receive_leg(Rank{1}, tag, received_));
  EXPECT_EQ(progress_of(*cut_, receive), Progress::pending);
  EXPECT_EQ(progress_of(*ends_[1], post(*ends_[1], send_leg(Rank{0}, tag, sent_))), Progress::done);
  EXPECT_EQ(progress_of(*cut_, receive), Progress::done);
  EXPECT_EQ(received_, sent_);
  EXPECT_EQ(cut_->poll(receive, at_once).error().code, Errc::not_found);
}

TEST_F(CutEnds, LoseWhatIsSentToAPeerBehindTheCutAndNothingElse) {
  const Ticket one = post(*ends_[1], receive_leg(Rank{0}, tag, lost_));
  const Ticket two = post(*ends_[2], receive_leg(Rank{0}, tag, received_));
  is_cut_ = true;
  const std::array legs{send_leg(Rank{1}, tag, sent_), send_leg(Rank{2}, tag, sent_)};
  const Ticket ticket = cut_->post(legs).value();
  EXPECT_EQ(progress_of(*ends_[2], two), Progress::done);
  EXPECT_EQ(received_, sent_);
  EXPECT_EQ(progress_of(*ends_[1], one), Progress::pending);
  EXPECT_EQ(progress_of(*cut_, ticket), Progress::done);
  EXPECT_EQ(cut_->poll(ticket, at_once).error().code, Errc::not_found);
}

TEST_F(CutEnds, EndAPostingOfWhichNothingIsLeft) {
  is_cut_ = true;
  EXPECT_EQ(progress_of(*cut_, post(*cut_, send_leg(Rank{1}, tag, sent_))), Progress::done);
}

TEST_F(CutEnds, LoseWhatComesFromAPeerBehindTheCutAndNothingElse) {
  const Ticket before = post(*cut_, receive_leg(Rank{1}, tag, lost_));
  is_cut_ = true;
  post(*ends_[1], send_leg(Rank{0}, tag, sent_));
  const Ticket after = post(*cut_, receive_leg(Rank{1}, tag, lost_));
  for (Ticket ticket : {before, after}) {
    EXPECT_EQ(progress_of(*cut_, ticket), Progress::pending);
    cut_->cancel(ticket);
    EXPECT_EQ(progress_of(*cut_, ticket), Progress::cancelled);
  }
  const Ticket other = post(*cut_, receive_leg(Rank{2}, tag, received_));
  post(*ends_[2], send_leg(Rank{0}, tag, sent_));
  EXPECT_EQ(progress_of(*cut_, other), Progress::done);
  EXPECT_EQ(received_, sent_);
}

TEST_F(CutEnds, HideThatAPeerBehindTheCutIsGone) {
  is_cut_ = true;
  ends_[1]->close();
  ends_[2]->close();
  EXPECT_EQ(cut_->take_peer_down_events(), std::vector{Rank{2}});
  EXPECT_EQ(progress_of(*cut_, post(*cut_, receive_leg(Rank{1}, tag, lost_))), Progress::pending);
}

TEST_F(CutEnds, CutTheChannelsOpenedFromThemToo) {
  const auto channel = cut_->open_channel().value();
  const auto others = ends_[1]->open_channel().value();
  const auto unused = ends_[2]->open_channel().value();
  is_cut_ = true;
  const Ticket awaited = post(*others, receive_leg(Rank{0}, tag, lost_));
  EXPECT_EQ(progress_of(*channel, post(*channel, send_leg(Rank{1}, tag, sent_))), Progress::done);
  EXPECT_EQ(progress_of(*others, awaited), Progress::pending);
}

}  // namespace
}  // namespace trimtab::verify
