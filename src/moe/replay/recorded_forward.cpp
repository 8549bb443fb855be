// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/recorded_forward.hpp"

namespace trimtab::moe {
namespace {

const TableBufferHead* head_of(const ReplayMemory& memory) noexcept {
  return reinterpret_cast<const TableBufferHead*>(memory.table().data());
}

template <class T>
const T* table_array(const ReplayMemory& memory, std::size_t offset) noexcept {
  return reinterpret_cast<const T*>(memory.table().data() + offset);
}

}  // namespace

RecordedForward::RecordedForward(const Recording& with, std::size_t tokens) : tokens_(tokens) {
  for (const LayerId layer : ids<LayerId>(with.options.config.num_layers)) record_layer(with, layer);
}

void RecordedForward::record_layer(const Recording& with, LayerId layer) {
  const replay::KeySource source{&with.memory.input, head_of(with.memory), layer};
  record_gate(with, layer);
  record_route(with, layer);
  record_rows(with, source);
  record_experts(with, source);
  record_answers(with, source);
}

void RecordedForward::record_gate(const Recording& with, LayerId layer) {
  ReplayMemory& memory = with.memory;
  const ModelConfig& config = with.options.config;
  if (with.parts.around != nullptr) {
    operations_.emplace_back(replay::Before{.input = &memory.input,
                                            .around = with.parts.around,
                                            .layer = layer,
                                            .states = memory.states.data(),
                                            .width = config.width()});
  }
  operations_.emplace_back(replay::Gate{.input = &memory.input,
                                        .stage = &with.gate,
                                        .layer = layer,
                                        .states = memory.states.data(),
                                        .bias = &memory.bias[layer.index() * config.experts()],
                                        .experts = memory.experts.data(),
                                        .tokens = tokens_,
                                        .width = config.width(),
                                        .num_experts = config.experts(),
                                        .top_k = config.choices()});
}

void RecordedForward::record_route(const Recording& with, LayerId layer) {
  ReplayMemory& memory = with.memory;
  const ModelConfig& config = with.options.config;
  const TableBufferLayout layout = table_buffer_layout(memory.table_capacity);
  const std::size_t assignments = tokens_ * config.choices();
  const auto* first = table_array<std::uint32_t>(memory, layout.first);
  operations_.emplace_back(
      replay::Route{.first = first + layer.index() * (config.experts() + 1),
                    .table_slots = table_array<std::int32_t>(memory, layout.slots),
                    .share_begins = table_array<std::uint32_t>(memory, layout.share_begins),
                    .phases = &memory.phases[layer.index() * config.experts()],
                    .experts = memory.experts.data(),
                    .slots = memory.slots.data(),
                    .assignments = assignments});
  if (with.parts.recorder == nullptr) return;
  operations_.emplace_back(replay::Record{.input = &memory.input,
                                          .table = head_of(memory),
                                          .recorder = with.parts.recorder,
                                          .context = with.options.context,
                                          .layer = layer,
                                          .slots = memory.slots.data(),
                                          .assignments = assignments});
}

void RecordedForward::record_rows(const Recording& with, const replay::KeySource& source) {
  ReplayMemory& memory = with.memory;
  operations_.emplace_back(replay::Pack{.source = source,
                                        .topology = &with.parts.topology,
                                        .messages = memory.messages.rows_to(),
                                        .answer_messages = memory.messages.answers_from(),
                                        .slots = memory.slots.data(),
                                        .values = with.gate.values().data(),
                                        .scales = with.gate.scales().data(),
                                        .answers = memory.answers.data(),
                                        .tokens = tokens_,
                                        .top_k = with.options.config.choices(),
                                        .width = with.options.config.width()});
  operations_.emplace_back(replay::Exchange{.all_to_all = &with.all_to_all,
                                            .tag = &memory.input.rows_tag,
                                            .sent = &memory.messages.sent_rows(),
                                            .received = &memory.messages.received_rows()});
}

void RecordedForward::record_answers(const Recording& with, const replay::KeySource& source) {
  ReplayMemory& memory = with.memory;
  const ModelConfig& config = with.options.config;
  operations_.emplace_back(replay::Exchange{.all_to_all = &with.all_to_all,
                                            .tag = &memory.input.answers_tag,
                                            .sent = &memory.messages.sent_answers(),
                                            .received = &memory.messages.received_answers()});
  if (with.parts.around != nullptr) {
    operations_.emplace_back(replay::Beside{.input = &memory.input,
                                            .around = with.parts.around,
                                            .layer = source.layer,
                                            .gate = &with.gate,
                                            .states = memory.states.data(),
                                            .width = config.width()});
  }
  operations_.emplace_back(replay::Combine{.source = source,
                                           .topology = &with.parts.topology,
                                           .self = with.parts.channel.rank(),
                                           .messages = memory.messages.rows_to(),
                                           .answer_messages = memory.messages.answers_from(),
                                           .answers = memory.answers.data(),
                                           .gate = &with.gate,
                                           .states = memory.states.data(),
                                           .top_k = config.choices(),
                                           .width = config.width()});
}

void RecordedForward::record_experts(const Recording& with, const replay::KeySource& source) {
  ReplayMemory& memory = with.memory;
  const std::size_t width = with.options.config.width();
  const std::size_t local = memory.grouped.next.size();
  operations_.emplace_back(replay::Receive{.source = source,
                                           .topology = &with.parts.topology,
                                           .self = with.parts.channel.rank(),
                                           .messages = memory.messages.rows_from(),
                                           .answers = memory.messages.answers_to(),
                                           .capacity = memory.messages.capacity(),
                                           .width = width,
                                           .grouped = &memory.grouped,
                                           .rows = memory.rows.data() + source.layer.index() * local});
  for (const SlotId slot : with.parts.memory.slots()) {
    operations_.emplace_back(
        replay::RunExpert{.kernel = &with.kernel,
                          .bundle = capture_bundle(with.parts.memory, source.layer, slot),
                          .scratch = &with.scratch,
                          .grouped = &memory.grouped,
                          .slot = slot.index() - with.parts.memory.slots().first().index(),
                          .width = width});
  }
}

Status RecordedForward::replay(ExecutorTimes& times, const Clock& clock) const {
  Clock::time_point begun = clock.now();
  for (const replay::Operation& operation : operations_) {
    Clock::duration ExecutorTimes::*time = nullptr;
    Status ran = std::visit(
        [&](const auto& run_one) {
          time = run_one.time;
          return run_one.run();
        },
        operation);
    const Clock::time_point ended = clock.now();
    if (time != nullptr) times.*time += ended - begun;
    if (!ran) return ran;
    begun = ended;
  }
  return {};
}

}  // namespace trimtab::moe
