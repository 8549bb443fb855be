// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/record/recorder.hpp>
#include <trimtab/route/table_buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <variant>

#include "moe/all_to_all.hpp"
#include "moe/around_experts.hpp"
#include "moe/executor.hpp"
#include "moe/expert_buffer.hpp"
#include "moe/expert_kernel.hpp"
#include "moe/gate_stage.hpp"
#include "moe/quantise.hpp"
#include "moe/replay/captured_bundle.hpp"
#include "moe/replay/fixed_messages.hpp"
#include "moe/replay/replay_memory.hpp"

/// The operations of a recorded forward. Each holds the addresses and sizes that it was recorded with and
/// nothing else: it finds at replay what then lies there. `tokens` is the padded number, of which
/// ReplayInput::num_tokens count. Errors are those of RankExecutor::forward.
namespace trimtab::moe::replay {

/// Where the time of an operation is added; null: nowhere.
using TimeIn = Clock::duration ExecutorTimes::*;

/// What surrounds the experts, on the tokens that count: engines leave attention out of what they capture.
struct Before {
  static constexpr TimeIn time = nullptr;
  const ReplayInput* input;
  AroundExperts* around;
  LayerId layer;
  float* states;
  std::size_t width;
  Status run() const;
};
struct Beside {
  static constexpr TimeIn time = nullptr;
  const ReplayInput* input;
  AroundExperts* around;
  LayerId layer;
  const GateStage* gate;
  float* states;
  std::size_t width;
  Status run() const;
};

/// Norm, quantisation, scores and choice of all tokens, padding included; then padding has `no_expert`.
struct Gate {
  static constexpr TimeIn time = nullptr;
  const ReplayInput* input;
  GateStage* stage;
  LayerId layer;
  const float* states;  ///< [tokens][width]
  const float* bias;    ///< [num_experts], of the layer.
  ExpertId* experts;    ///< [tokens][top_k]
  std::size_t tokens;
  std::size_t width;
  std::size_t num_experts;
  std::size_t top_k;
  Status run() const;
};

/// Experts to slots by the arrays of the table buffer; `no_expert` stays `no_slot`. An expert's assignments
/// go around its shares by the golden ratio, one after another (R4). Precondition: the buffer was checked.
struct Route {
  static constexpr TimeIn time = nullptr;
  const std::uint32_t* first;  ///< [experts + 1], of the layer.
  const std::int32_t* table_slots;
  const std::uint32_t* share_begins;
  std::uint32_t* phases;  ///< [experts], of the layer.
  const ExpertId* experts;
  SlotId* slots;
  std::size_t assignments;  ///< Padded.
  Status run() const;
};

/// Counts what was routed; the recorder leaves padding out (R5).
struct Record {
  static constexpr TimeIn time = &ExecutorTimes::record;
  const ReplayInput* input;
  const TableBufferHead* table;
  Recorder* recorder;
  RecordContext context;
  LayerId layer;
  const SlotId* slots;
  std::size_t assignments;
  Status run() const;
};

/// What messages of a layer are of.
struct KeySource {
  const ReplayInput* input;
  const TableBufferHead* table;
  LayerId layer;
  [[nodiscard]] BatchKey key() const noexcept;
};

/// Assignments into the messages to their slots' ranks, in order.
struct Pack {
  static constexpr TimeIn time = nullptr;
  KeySource source;
  const Topology* topology;
  const RowsMessage* messages;            ///< By rank, like the next.
  const AnswersMessage* answer_messages;  ///< Where the answers will come.
  const SlotId* slots;
  const std::int8_t* values;
  const RowScale* scales;
  const float** answers;  ///< Null for padding.
  std::size_t tokens;
  std::size_t top_k;
  std::size_t width;
  Status run() const;
};

/// Messages of fixed size from every rank to every other.
struct Exchange {
  static constexpr TimeIn time = &ExecutorTimes::exchange;
  AllToAll* all_to_all;
  const Tag* tag;
  const FixedMessages::Sent* sent;
  const FixedMessages::Received* received;
  Status run() const;
};

/// Checks what came, writes the heads of the answers and sorts rows by slot.
struct Receive {
  static constexpr TimeIn time = &ExecutorTimes::experts;
  KeySource source;
  const Topology* topology;
  Rank self;
  const RowsMessage* messages;  ///< By rank, like the next.
  const AnswersMessage* answers;
  std::size_t capacity;
  std::size_t width;
  GroupedRows* grouped;
  std::int64_t* rows;  ///< [local slots], of the layer.
  Status run() const;

 private:
  Status check(Rank sender) const;
  void place(Rank sender) const;
};

/// The rows of one local slot through the weights at the addresses where its bundle lay.
struct RunExpert {
  static constexpr TimeIn time = &ExecutorTimes::experts;
  ExpertKernel* kernel;
  CapturedBundle bundle;
  ExpertBuffer* scratch;
  const GroupedRows* grouped;
  std::size_t slot;  ///< From this rank's first.
  std::size_t width;
  Status run() const;
};

/// Checks the answers, and adds them to the states of the tokens that count.
struct Combine {
  static constexpr TimeIn time = nullptr;
  KeySource source;
  const Topology* topology;
  Rank self;
  const RowsMessage* messages;  ///< That the answers are to, by rank.
  const AnswersMessage* answer_messages;
  const float* const* answers;
  const GateStage* gate;
  float* states;
  std::size_t top_k;
  std::size_t width;
  Status run() const;

 private:
  Status check() const;
};

using Operation =
    std::variant<Before, Gate, Route, Record, Pack, Exchange, Receive, RunExpert, Beside, Combine>;

}  // namespace trimtab::moe::replay
