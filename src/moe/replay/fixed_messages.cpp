// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/fixed_messages.hpp"

namespace trimtab::moe {
namespace {

constexpr std::size_t line_bytes = 64;

constexpr std::size_t round_up(std::size_t bytes) noexcept {
  return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

}  // namespace

FixedMessages::FixedMessages(std::int32_t num_ranks, Rank self, std::size_t capacity, std::size_t hidden)
    : capacity_(capacity) {
  const std::size_t rows_bytes = sizeof(MessageHeader) + capacity * (sizeof(RowTarget) + hidden);
  const std::size_t answers_bytes = sizeof(MessageHeader) + capacity * hidden * sizeof(float);
  const auto ranks = static_cast<std::size_t>(num_ranks);
  memory_ = std::make_unique<std::byte[]>(2 * ranks * (round_up(rows_bytes) + round_up(answers_bytes)));
  free_ = memory_.get();
  for (const Rank rank : ids<Rank>(num_ranks)) {
    const std::span<std::byte> rows = take(rows_bytes);
    const std::span<std::byte> answers = take(answers_bytes);
    sent_rows_.emplace_back(rows);
    received_answers_.emplace_back(answers);
    rows_to_.push_back(rows_at(rows));
    answers_from_.push_back(answers_at(answers));
    const bool is_self = rank == self;
    received_rows_.push_back(is_self ? rows : take(rows_bytes));
    const std::span<std::byte> answered = is_self ? answers : take(answers_bytes);
    sent_answers_.emplace_back(answered);
    rows_from_.push_back(rows_at(received_rows_.back()));
    answers_to_.push_back(answers_at(answered));
  }
}

std::span<std::byte> FixedMessages::take(std::size_t bytes) noexcept {
  std::byte* const taken = free_;
  free_ += round_up(bytes);
  return {taken, bytes};
}

RowsMessage FixedMessages::rows_at(std::span<std::byte> message) const noexcept {
  std::byte* const targets = message.data() + sizeof(MessageHeader);
  return {reinterpret_cast<MessageHeader*>(message.data()), reinterpret_cast<RowTarget*>(targets),
          reinterpret_cast<std::int8_t*>(targets + capacity_ * sizeof(RowTarget))};
}

AnswersMessage FixedMessages::answers_at(std::span<std::byte> message) noexcept {
  return {reinterpret_cast<MessageHeader*>(message.data()),
          reinterpret_cast<float*>(message.data() + sizeof(MessageHeader))};
}

}  // namespace trimtab::moe
