// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/fixed_messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trimtab::moe {
namespace {

constexpr std::size_t capacity = 6;
constexpr std::size_t hidden = 37;

TEST(FixedMessages, AllHaveRoomForTheSameRows) {
  const FixedMessages messages(3, Rank{1}, capacity, hidden);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(messages.sent_rows()[r].size(),
              sizeof(MessageHeader) + capacity * (sizeof(RowTarget) + hidden));
    EXPECT_EQ(messages.received_rows()[r].size(), messages.sent_rows()[r].size());
    EXPECT_EQ(messages.sent_answers()[r].size(), sizeof(MessageHeader) + capacity * hidden * sizeof(float));
    EXPECT_EQ(messages.received_answers()[r].size(), messages.sent_answers()[r].size());
  }
}

TEST(FixedMessages, WhatARankSendsItselfIsWhereItReceivesIt) {
  const FixedMessages messages(3, Rank{1}, capacity, hidden);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(messages.sent_rows()[r].data() == messages.received_rows()[r].data(), r == 1);
    EXPECT_EQ(messages.sent_answers()[r].data() == messages.received_answers()[r].data(), r == 1);
  }
}

TEST(FixedMessages, NoneOverlaps) {
  const FixedMessages messages(2, Rank{0}, capacity, hidden);
  std::vector<std::span<const std::byte>> all{messages.sent_rows()[0],     messages.sent_rows()[1],
                                              messages.received_rows()[1], messages.sent_answers()[0],
                                              messages.sent_answers()[1],  messages.received_answers()[1]};
  std::ranges::sort(all, {}, [](std::span<const std::byte> message) { return message.data(); });
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    EXPECT_LE(all[i].data() + all[i].size(), all[i + 1].data());
}

TEST(FixedMessages, PartsLieInTheMessageTheyAreOf) {
  const FixedMessages messages(2, Rank{0}, capacity, hidden);
  const RowsMessage& rows = messages.rows_to()[1];
  const std::span<const std::byte> sent = messages.sent_rows()[1];
  EXPECT_EQ(reinterpret_cast<const std::byte*>(rows.header), sent.data());
  EXPECT_EQ(reinterpret_cast<const std::byte*>(rows.targets), sent.data() + sizeof(MessageHeader));
  EXPECT_EQ(reinterpret_cast<const std::byte*>(rows.values + capacity * hidden), sent.data() + sent.size());
  const AnswersMessage& answers = messages.answers_from()[1];
  const std::span<std::byte> received = messages.received_answers()[1];
  EXPECT_EQ(reinterpret_cast<const std::byte*>(answers.header), received.data());
  EXPECT_EQ(reinterpret_cast<const std::byte*>(answers.rows + capacity * hidden),
            received.data() + received.size());
}

}  // namespace
}  // namespace trimtab::moe
