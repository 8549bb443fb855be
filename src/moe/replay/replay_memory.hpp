// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/route/table_buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "moe/all_to_all.hpp"
#include "moe/config.hpp"
#include "moe/quantise.hpp"
#include "moe/replay/fixed_messages.hpp"

namespace trimtab::moe {

/// What changes from one replay to the next, where recorded operations look for it.
struct ReplayInput {
  std::uint64_t num_tokens = 0;  ///< That count; the rows behind them are padding.
  Forward number;
  Tag rows_tag{};
  Tag answers_tag{};
};

/// Rows of all senders, sorted by the slot they go to.
struct GroupedRows {
  std::vector<std::int8_t> values;  ///< [rows][hidden]
  std::vector<RowScale> scales;     ///< [rows]
  std::vector<float*> answers;      ///< [rows]
  std::vector<std::size_t> begins;  ///< [local slots + 1]
  std::vector<std::size_t> next;    ///< [local slots]: used while they are sorted
};

/// All memory that recorded forwards of one rank work on: allocated once for the largest batch, shared by the
/// forwards of all sizes, and where it is for good.
struct ReplayMemory {
  ReplayMemory(const ModelConfig& config, const Topology& topology, Rank self, std::size_t max_tokens);
  ReplayMemory(const ReplayMemory&) = delete;
  ReplayMemory& operator=(const ReplayMemory&) = delete;

  [[nodiscard]] std::span<std::byte> table() const noexcept { return {table_memory_.get(), table_bytes_}; }

  ReplayInput input;
  std::vector<float> states;      ///< [tokens][hidden]; padding holds what was there before.
  std::vector<float> bias;        ///< [layers][experts]
  std::vector<ExpertId> experts;  ///< [tokens][top_k]
  std::vector<SlotId> slots;
  std::vector<const float*> answers;  ///< [tokens][top_k]: where the answer to each assignment comes.
  std::vector<std::uint32_t> phases;  ///< [layers][experts]: of the next assignment, in parts of its shares.
  std::vector<std::int64_t> rows;     ///< [layers][local slots]: of the last replay.
  FixedMessages messages;
  GroupedRows grouped;
  TableCapacity table_capacity;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  std::size_t table_bytes_;
  std::unique_ptr<std::byte, Free> table_memory_;
};

}  // namespace trimtab::moe
