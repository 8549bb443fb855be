// SPDX-License-Identifier: Apache-2.0
#include "moe/all_to_all.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace trimtab::moe {
namespace {

using Message = std::array<std::byte, 8>;

/// Does not let go of what was cancelled until its peer is dropped: as with a stopped process.
class StuckEnd final : public TransportDecorator {
 public:
  using TransportDecorator::TransportDecorator;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override {
    return is_stuck_ ? Progress::pending : inner().poll(ticket, budget);
  }
  void drop_peer(Rank /*peer*/) noexcept override { is_stuck_ = false; }

 private:
  bool is_stuck_ = true;
};

class Steps final : public Clock {
 public:
  [[nodiscard]] time_point now() const noexcept override { return now_; }
  void pass(duration time) { now_ += time; }

 private:
  time_point now_;
};

/// Two ranks, of which only one comes.
class GivenUpAllToAll : public testing::Test {
 protected:
  GivenUpAllToAll()
      : ends_(*make_inproc_transports(2)),
        stuck_(std::move(ends_[0])),
        all_to_all_(stuck_, topology_, clock_, deadline, [this]() -> Status {
          clock_.pass(deadline);
          return {};
        }) {}

  Status run() {
    const std::vector<std::span<const std::byte>> out(2, out_);
    const std::vector<std::span<std::byte>> in(2, in_);
    return all_to_all_.run(Tag{1}, out, in);
  }

  static constexpr Clock::duration deadline = std::chrono::seconds(1);
  const Topology topology_ = *Topology::make_uniform(2, 1, 2);
  Steps clock_;
  Message out_{};
  Message in_{};
  std::vector<std::unique_ptr<Transport>> ends_;
  StuckEnd stuck_;
  AllToAll all_to_all_;
};

TEST_F(GivenUpAllToAll, HasLetGoOnceItsMemoryIsFree) {
  EXPECT_EQ(run().error().code, Errc::timeout);
  all_to_all_.give_up();
  EXPECT_FALSE(all_to_all_.has_let_go().value());
  stuck_.drop_peer(Rank{1});
  EXPECT_TRUE(all_to_all_.has_let_go().value());
  ends_[1]->close();
  EXPECT_EQ(run().error().code, Errc::peer_lost) << "nothing is left of the first";
}

TEST_F(GivenUpAllToAll, NamesTheRankThatHoldsItsMemoryForLongerThanTheDeadline) {
  EXPECT_EQ(run().error().code, Errc::timeout);
  all_to_all_.give_up();
  clock_.pass(deadline - std::chrono::nanoseconds(1));
  EXPECT_TRUE(all_to_all_.has_let_go().has_value());
  clock_.pass(std::chrono::nanoseconds(1));
  const Result<bool> late = all_to_all_.has_let_go();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timeout);
  EXPECT_EQ(late.error().message, "a message of rank 1 cannot be given up");
}

/// Of three ranks one has sent, and one has not.
TEST(AllToAll, TellsOnceOfEachRankThatIsUnheardForHalfOfTheDeadline) {
  constexpr Clock::duration deadline = std::chrono::seconds(1);
  auto ends = *make_inproc_transports(3);
  const Topology topology = *Topology::make_uniform(3, 1, 3);
  Steps clock;
  Message message{};
  Message received[3]{};
  ASSERT_TRUE(ends[1]->post(std::array{send_leg(Rank{0}, Tag{1}, message)}));
  std::vector<std::pair<Rank, Clock::duration>> told;
  AllToAll all_to_all(
      *ends[0], topology, clock, deadline,
      [&]() -> Status {
        clock.pass(deadline / 8);
        return {};
      },
      [&](Rank rank) { told.emplace_back(rank, clock.now().time_since_epoch()); });
  const std::vector<std::span<const std::byte>> out(3, message);
  const std::vector<std::span<std::byte>> in(std::begin(received), std::end(received));
  EXPECT_EQ(all_to_all.run(Tag{1}, out, in).error().message, "a message from rank 2 took more than 1000 ms");
  EXPECT_EQ(told, (std::vector<std::pair<Rank, Clock::duration>>{{Rank{2}, deadline / 2}}));
}

}  // namespace
}  // namespace trimtab::moe
