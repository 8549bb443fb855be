// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trimtab::moe::replay {

Status Before::run() const { return around->before(layer, {states, input->num_tokens * width}); }

Status Beside::run() const { return around->beside(layer, *gate, {states, input->num_tokens * width}); }

Status Gate::run() const {
  stage->run(layer, {states, tokens * width}, {bias, num_experts});
  const std::size_t valid = input->num_tokens * top_k;
  std::copy_n(stage->experts().begin(), valid, experts);
  std::fill(experts + valid, experts + tokens * top_k, no_expert);
  return {};
}

namespace {

/// Parts of a share, 2^32 times the golden ratio less one: no other step keeps all prefixes as even.
constexpr std::uint32_t golden_step = 0x9e3779b9;

}  // namespace

Status Route::run() const {
  for (std::size_t i = 0; i < assignments; ++i) {
    slots[i] = no_slot;
    if (experts[i] == no_expert) continue;
    const std::size_t expert = experts[i].index();
    const std::uint32_t* const begin = share_begins + first[expert];
    const std::uint32_t* const end = share_begins + first[expert + 1];
    const std::uint32_t* const replica = std::upper_bound(begin, end, phases[expert]) - 1;
    slots[i] = SlotId{table_slots[replica - share_begins]};
    phases[expert] += golden_step;
  }
  return {};
}

Status Record::run() const {
  return recorder->record(context, Epoch{table->epoch}, layer, {slots, assignments},
                          static_cast<std::int64_t>(input->num_tokens));
}

BatchKey KeySource::key() const noexcept {
  const TableIdentity identity{Epoch{table->epoch}, static_cast<std::uint32_t>(table->split_version)};
  return {identity, input->number, layer};
}

Status Pack::run() const {
  for (const Rank rank : ids<Rank>(topology->num_ranks())) {
    *messages[rank.index()].header = make_header(MessageKind::rows, source.key(), 0);
  }
  for (std::size_t i = 0; i < tokens * top_k; ++i) {
    answers[i] = nullptr;
    if (slots[i] == no_slot) continue;
    const std::size_t rank = topology->rank_of(slots[i]).index();
    const RowsMessage& message = messages[rank];
    const std::size_t row = message.header->num_rows++;
    message.targets[row] = {slots[i], scales[i / top_k]};
    std::memcpy(message.values + row * width, values + i / top_k * width, width);
    answers[i] = answer_messages[rank].rows + row * width;
  }
  return {};
}

Status Exchange::run() const { return all_to_all->run(*tag, *sent, *received); }

Status Receive::check(Rank sender) const {
  const RowsMessage& message = messages[sender.index()];
  const BatchKey key = source.key();
  if (Status s = check_header(*message.header, MessageKind::rows, key, sender, capacity); !s) return s;
  const IdRange<SlotId> local = topology->slots_of(self);
  for (std::size_t row = 0; row < message.header->num_rows; ++row) {
    const SlotId slot = message.targets[row].slot;
    if (local.contains(slot)) continue;
    return failure(Errc::corrupt,
                   fmt::format("layer {}: rank {} sent row {} to slot {}, which is not of rank {}",
                               key.layer.value(), sender.value(), row, slot.value(), self.value()));
  }
  return {};
}

Status Receive::run() const {
  const std::size_t num_slots = grouped->next.size();
  const std::size_t first_slot = topology->slots_of(self).first().index();
  std::fill_n(rows, num_slots, 0);
  for (const Rank sender : ids<Rank>(topology->num_ranks())) {
    if (!topology->is_alive(sender)) continue;
    if (Status s = check(sender); !s) return s;
    const RowsMessage& message = messages[sender.index()];
    for (std::size_t row = 0; row < message.header->num_rows; ++row) {
      ++rows[message.targets[row].slot.index() - first_slot];
    }
    *answers[sender.index()].header =
        make_header(MessageKind::answers, source.key(), message.header->num_rows);
  }
  for (std::size_t s = 0; s < num_slots; ++s) {
    grouped->next[s] = grouped->begins[s];
    grouped->begins[s + 1] = grouped->begins[s] + static_cast<std::size_t>(rows[s]);
  }
  for (const Rank sender : ids<Rank>(topology->num_ranks())) {
    if (topology->is_alive(sender)) place(sender);
  }
  return {};
}

void Receive::place(Rank sender) const {
  const RowsMessage& message = messages[sender.index()];
  const std::size_t first_slot = topology->slots_of(self).first().index();
  for (std::size_t row = 0; row < message.header->num_rows; ++row) {
    const std::size_t to = grouped->next[message.targets[row].slot.index() - first_slot]++;
    std::memcpy(&grouped->values[to * width], message.values + row * width, width);
    grouped->scales[to] = message.targets[row].scale;
    grouped->answers[to] = answers[sender.index()].rows + row * width;
  }
}

Status RunExpert::run() const {
  const std::size_t first = grouped->begins[slot];
  const std::size_t count = grouped->begins[slot + 1] - first;
  if (count == 0) return {};
  return kernel->run(bundle.read(*scratch), {{&grouped->values[first * width], count * width},
                                             {&grouped->scales[first], count},
                                             {&grouped->answers[first], count}});
}

Status Combine::check() const {
  const BatchKey key = source.key();
  for (const Rank rank : ids<Rank>(topology->num_ranks())) {
    if (rank == self || !topology->is_alive(rank)) continue;
    const MessageHeader& header = *answer_messages[rank.index()].header;
    const std::size_t rows = messages[rank.index()].header->num_rows;
    if (Status s = check_header(header, MessageKind::answers, key, rank, rows); !s) return s;
    if (header.num_rows == rows) continue;
    return failure(Errc::corrupt, fmt::format("rank {} answered {} rows of {} (layer {})", rank.value(),
                                              header.num_rows, rows, key.layer.value()));
  }
  return {};
}

Status Combine::run() const {
  if (Status s = check(); !s) return s;
  for (std::size_t t = 0; t < source.input->num_tokens; ++t) {
    combine_token(gate->weights_of(t), {answers + t * top_k, top_k}, {states + t * width, width});
  }
  return {};
}

}  // namespace trimtab::moe::replay
