// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/transport.hpp>

#include <gtest/gtest.h>

#include <array>

namespace trimtab::test {
namespace {

TEST(Leg, NamesTheSendersMemoryWithoutCopyingIt) {
  const std::array<std::byte, 3> memory{};
  const Leg leg = send_leg(Rank{4}, Tag{5}, memory);
  EXPECT_EQ(leg.side, Side::send);
  EXPECT_EQ(leg.peer, Rank{4});
  EXPECT_EQ(leg.tag, Tag{5});
  EXPECT_EQ(leg.memory.data(), memory.data());
  EXPECT_EQ(leg.memory.size(), memory.size());
}

TEST(Leg, NamesTheReceiversMemory) {
  std::array<std::byte, 3> memory{};
  const Leg leg = receive_leg(Rank{6}, Tag{7}, memory);
  EXPECT_EQ(leg.side, Side::receive);
  EXPECT_EQ(leg.peer, Rank{6});
  EXPECT_EQ(leg.tag, Tag{7});
  EXPECT_EQ(leg.memory.data(), memory.data());
  EXPECT_EQ(leg.memory.size(), memory.size());
}

}  // namespace
}  // namespace trimtab::test
