// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "moe/all_to_all.hpp"
#include "moe/dispatch.hpp"

namespace trimtab::moe {

/// A message of rows at its address: the header says how many count, the rest is room.
struct RowsMessage {
  MessageHeader* header;
  RowTarget* targets;   ///< [capacity]
  std::int8_t* values;  ///< [capacity][hidden]
};

/// The answer to one.
struct AnswersMessage {
  MessageHeader* header;
  float* rows;  ///< [capacity][hidden]
};

/// Messages between this rank and each other whose addresses and sizes never change, as an all-to-all in a
/// captured graph has them: room for `capacity` rows, however few count. What a rank sends itself is where it
/// receives it. All zero at first.
class FixedMessages {
 public:
  FixedMessages(std::int32_t num_ranks, Rank self, std::size_t capacity, std::size_t hidden);

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  // By rank: what goes to it, and what comes from it.
  [[nodiscard]] const RowsMessage* rows_to() const noexcept { return rows_to_.data(); }
  [[nodiscard]] const RowsMessage* rows_from() const noexcept { return rows_from_.data(); }
  [[nodiscard]] const AnswersMessage* answers_to() const noexcept { return answers_to_.data(); }
  [[nodiscard]] const AnswersMessage* answers_from() const noexcept { return answers_from_.data(); }

  // The same messages as an all-to-all takes them.
  using Sent = std::vector<std::span<const std::byte>>;
  using Received = std::vector<std::span<std::byte>>;
  [[nodiscard]] const Sent& sent_rows() const noexcept { return sent_rows_; }
  [[nodiscard]] const Received& received_rows() const noexcept { return received_rows_; }
  [[nodiscard]] const Sent& sent_answers() const noexcept { return sent_answers_; }
  [[nodiscard]] const Received& received_answers() const noexcept { return received_answers_; }

 private:
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes) noexcept;
  [[nodiscard]] RowsMessage rows_at(std::span<std::byte> message) const noexcept;
  [[nodiscard]] static AnswersMessage answers_at(std::span<std::byte> message) noexcept;

  std::size_t capacity_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* free_;
  std::vector<RowsMessage> rows_to_;
  std::vector<RowsMessage> rows_from_;
  std::vector<AnswersMessage> answers_to_;
  std::vector<AnswersMessage> answers_from_;
  Sent sent_rows_;
  Sent sent_answers_;
  Received received_rows_;
  Received received_answers_;
};

}  // namespace trimtab::moe
