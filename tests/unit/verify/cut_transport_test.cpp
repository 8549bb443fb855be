// SPDX-License-Identifier: Apache-2.0
#include "verify/cut_transport.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <array>

namespace trimtab::verify {
namespace {

constexpr Tag tag{3};

TEST(CutTransport, LosesWhatIsSentToAPeerBehindTheCutAndNothingElse) {
  auto ends = make_inproc_transports(3).value();
  bool is_cut = false;
  CutTransport cut(std::move(ends[0]), [&](Rank peer) { return is_cut && peer == Rank{1}; });
  const std::array<std::byte, 2> sent{std::byte{7}, std::byte{8}};
  std::array<std::byte, 2> lost{};
  std::array<std::byte, 2> arrived{};
  const std::array to_one{receive_leg(Rank{0}, tag, lost)};
  const std::array to_two{receive_leg(Rank{0}, tag, arrived)};
  const Ticket one = ends[1]->post(to_one).value();
  const Ticket two = ends[2]->post(to_two).value();
  is_cut = true;
  const std::array legs{send_leg(Rank{1}, tag, sent), send_leg(Rank{2}, tag, sent)};
  const Ticket ticket = cut.post(legs).value();
  EXPECT_EQ(ends[2]->poll(two, {}).value(), Progress::done);
  EXPECT_EQ(arrived, sent);
  EXPECT_EQ(ends[1]->poll(one, {}).value(), Progress::pending);
  EXPECT_EQ(cut.poll(ticket, {}).value(), Progress::done);
  EXPECT_EQ(cut.poll(ticket, {}).error().code, Errc::not_found);
}

TEST(CutTransport, EndsAPostingOfWhichNothingIsLeft) {
  auto ends = make_inproc_transports(2).value();
  CutTransport cut(std::move(ends[0]), [](Rank) { return true; });
  const std::array<std::byte, 1> sent{};
  const std::array legs{send_leg(Rank{1}, tag, sent)};
  EXPECT_EQ(cut.poll(cut.post(legs).value(), {}).value(), Progress::done);
}

}  // namespace
}  // namespace trimtab::verify
