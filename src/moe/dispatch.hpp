// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "moe/all_to_all.hpp"
#include "moe/config.hpp"
#include "moe/quantise.hpp"

namespace trimtab::moe {

/// Where a row of a `rows` message goes, and how it was quantised. A message is a header, these, then the
/// rows' int8 values; its answer is a header, then a row of floats for each.
struct RowTarget {
  SlotId slot;
  RowScale scale;
};

/// Fixed memory for messages, touched only where it is used.
using MessageMemory = std::unique_ptr<std::byte[]>;

// Both borrow the topology; who is alive may change between two forwards. Dead ranks send and get nothing.

/// This rank's assignments on their way out, and the answers to them.
class Outbox {
 public:
  Outbox(const ModelConfig& config, const Topology& topology, std::size_t max_tokens);

  /// Sorts assignments by rank and writes the messages. `slots` is [tokens][top_k], `values`
  /// [tokens][hidden], `scales` [tokens].
  void pack(const BatchKey& key, std::span<const SlotId> slots, std::span<const std::int8_t> values,
            std::span<const RowScale> scales) noexcept;

  /// By rank: what goes there, and where its answer lands.
  [[nodiscard]] std::span<const std::span<const std::byte>> messages() const noexcept { return messages_; }
  [[nodiscard]] std::span<const std::span<std::byte>> answers() const noexcept { return answers_; }

  /// Checks the headers of the answers of all ranks but `self`.
  [[nodiscard]] Status check_answers(const BatchKey& key, Rank self) const;
  /// The answers to the assignments of one token, [top_k], each `hidden` floats.
  [[nodiscard]] std::span<const float* const> answers_of(std::size_t token) const noexcept;

 private:
  void lay_out(const BatchKey& key, std::span<const SlotId> slots) noexcept;

  const Topology& topology_;
  std::size_t hidden_;
  std::size_t top_k_;
  MessageMemory message_memory_;
  MessageMemory answer_memory_;
  std::vector<std::span<const std::byte>> messages_;  ///< [ranks]
  std::vector<std::span<std::byte>> answers_;         ///< [ranks]
  std::vector<std::byte*> message_begin_;             ///< [ranks]
  std::vector<std::size_t> num_rows_;                 ///< [ranks]
  std::vector<std::size_t> next_row_;                 ///< [ranks]
  std::vector<const float*> answer_rows_;             ///< [tokens][top_k]
};

/// Rows of one sender, as they lie in its message.
struct ReceivedRows {
  std::span<const RowTarget> targets;
  std::span<const std::int8_t> values;  ///< [rows][hidden]
  std::span<float> answers;             ///< [rows][hidden], to be filled.
};

/// Other ranks' assignments to this rank's slots, and this rank's answers. Its own take no detour through
/// memory of messages.
class Inbox {
 public:
  Inbox(const ModelConfig& config, const Topology& topology, Rank self, std::size_t max_tokens);

  /// By rank: where a message from there lands.
  [[nodiscard]] std::span<const std::span<std::byte>> buffers() const noexcept { return buffers_; }

  /// Reads the messages of all ranks, this rank's own from `own`, and lays out the answers.
  /// @return `version_mismatch` or `corrupt` naming sender, value and limit.
  Status open(const BatchKey& key, const Outbox& own);

  [[nodiscard]] std::span<const ReceivedRows> rows() const noexcept { return rows_; }  ///< By sender.
  [[nodiscard]] std::span<const std::span<const std::byte>> answers() const noexcept { return answers_; }

 private:
  Status read(const BatchKey& key, Rank sender, std::span<const std::byte> message);
  void lay_out_answer(const BatchKey& key, Rank sender) noexcept;

  const Topology& topology_;
  std::size_t hidden_;
  std::size_t max_rows_;
  Rank self_;
  IdRange<SlotId> slots_;
  MessageMemory message_memory_;
  MessageMemory answer_memory_;
  std::vector<std::span<std::byte>> buffers_;        ///< [ranks]
  std::vector<std::span<const std::byte>> answers_;  ///< [ranks]
  std::vector<ReceivedRows> rows_;                   ///< [ranks]
  std::byte* next_answer_ = nullptr;
};

}  // namespace trimtab::moe
