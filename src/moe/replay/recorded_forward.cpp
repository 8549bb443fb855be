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
  ReplayMemory& memory = with.memory;
  const ModelConfig& config = with.options.config;
  const replay::KeySource source{&memory.input, head_of(memory), layer};
  record_gate(with, layer);
  record_route(with, layer);
  operations_.emplace_back(replay::Pack{.source = source,
                                        .topology = &with.parts.topology,
                                        .messages = memory.messages.rows_to(),
                                        .answer_messages = memory.messages.answers_from(),
                                        .slots = memory.slots.data(),
                                        .values = memory.values.data(),
                                        .scales = memory.scales.data(),
                                        .answers = memory.answers.data(),
                                        .tokens = tokens_,
                                        .top_k = config.choices(),
                                        .width = config.width()});
  operations_.emplace_back(replay::Exchange{.all_to_all = &with.all_to_all,
                                            .tag = &memory.input.rows_tag,
                                            .sent = &memory.messages.sent_rows(),
                                            .received = &memory.messages.received_rows()});
  record_experts(with, source);
  operations_.emplace_back(replay::Exchange{.all_to_all = &with.all_to_all,
                                            .tag = &memory.input.answers_tag,
                                            .sent = &memory.messages.sent_answers(),
                                            .received = &memory.messages.received_answers()});
  operations_.emplace_back(replay::Combine{.source = source,
                                           .topology = &with.parts.topology,
                                           .self = with.parts.channel.rank(),
                                           .messages = memory.messages.rows_to(),
                                           .answer_messages = memory.messages.answers_from(),
                                           .answers = memory.answers.data(),
                                           .weights = memory.weights.data(),
                                           .states = memory.states.data(),
                                           .top_k = config.choices(),
                                           .width = config.width()});
}

void RecordedForward::record_gate(const Recording& with, LayerId layer) {
  ReplayMemory& memory = with.memory;
  const ModelConfig& config = with.options.config;
  operations_.emplace_back(replay::NormAndQuantise{.states = memory.states.data(),
                                                   .norm = with.parts.weights.norm(layer).data(),
                                                   .normal = memory.normal.data(),
                                                   .values = memory.values.data(),
                                                   .scales = memory.scales.data(),
                                                   .tokens = tokens_,
                                                   .width = config.width()});
  operations_.emplace_back(replay::Choose{.config = &config,
                                          .chooser = &with.chooser,
                                          .normal = memory.normal.data(),
                                          .gate = with.parts.weights.gate(layer).data(),
                                          .bias = &memory.bias[layer.index() * config.experts()],
                                          .scores = memory.scores.data(),
                                          .experts = memory.experts.data(),
                                          .weights = memory.weights.data(),
                                          .tokens = tokens_});
  operations_.emplace_back(replay::MaskPadding{.input = &memory.input,
                                               .experts = memory.experts.data(),
                                               .tokens = tokens_,
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
    const Status ran = std::visit(
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
