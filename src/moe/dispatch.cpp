// SPDX-License-Identifier: Apache-2.0
#include "moe/dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trimtab::moe {
namespace {

/// Messages begin on a cache line.
constexpr std::size_t line_bytes = 64;

constexpr std::size_t round_up(std::size_t bytes) noexcept {
  return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

constexpr std::size_t rows_bytes(std::size_t rows, std::size_t hidden) noexcept {
  return sizeof(MessageHeader) + rows * (sizeof(RowTarget) + hidden);
}

constexpr std::size_t answer_bytes(std::size_t rows, std::size_t hidden) noexcept {
  return sizeof(MessageHeader) + rows * hidden * sizeof(float);
}

MessageMemory make_memory(std::size_t bytes) { return std::make_unique_for_overwrite<std::byte[]>(bytes); }

void write_header(std::byte* message, const MessageHeader& header) noexcept {
  std::memcpy(message, &header, sizeof header);
}

MessageHeader read_header(std::span<const std::byte> message) noexcept {
  MessageHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

RowTarget* targets_of(std::byte* message) noexcept {
  return reinterpret_cast<RowTarget*>(message + sizeof(MessageHeader));
}

std::int8_t* values_of(std::byte* message, std::size_t rows) noexcept {
  return reinterpret_cast<std::int8_t*>(message + sizeof(MessageHeader) + rows * sizeof(RowTarget));
}

float* answers_in(std::byte* message) noexcept {
  return reinterpret_cast<float*>(message + sizeof(MessageHeader));
}

}  // namespace

Outbox::Outbox(const ModelConfig& config, const Topology& topology, std::size_t max_tokens)
    : topology_(topology), hidden_(config.width()), top_k_(config.choices()) {
  const auto ranks = static_cast<std::size_t>(topology.num_ranks());
  const std::size_t rows = max_tokens * top_k_;
  const std::size_t padding = ranks * 2 * line_bytes;
  message_memory_ = make_memory(rows_bytes(rows, hidden_) + padding);
  answer_memory_ = make_memory(answer_bytes(rows, hidden_) + padding);
  messages_.resize(ranks);
  answers_.resize(ranks);
  message_begin_.resize(ranks);
  num_rows_.resize(ranks);
  next_row_.resize(ranks);
  answer_rows_.resize(rows);
}

void Outbox::lay_out(const BatchKey& key, std::span<const SlotId> slots) noexcept {
  std::fill(num_rows_.begin(), num_rows_.end(), std::size_t{0});
  std::fill(next_row_.begin(), next_row_.end(), std::size_t{0});
  for (const SlotId slot : slots) ++num_rows_[topology_.rank_of(slot).index()];
  std::byte* message = message_memory_.get();
  std::byte* answer = answer_memory_.get();
  for (std::size_t r = 0; r < num_rows_.size(); ++r) {
    message_begin_[r] = message;
    messages_[r] = {message, rows_bytes(num_rows_[r], hidden_)};
    answers_[r] = {answer, answer_bytes(num_rows_[r], hidden_)};
    write_header(message, make_header(MessageKind::rows, key, num_rows_[r]));
    message += round_up(messages_[r].size());
    answer += round_up(answers_[r].size());
  }
}

void Outbox::pack(const BatchKey& key, std::span<const SlotId> slots, std::span<const std::int8_t> values,
                  std::span<const RowScale> scales) noexcept {
  lay_out(key, slots);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t rank = topology_.rank_of(slots[i]).index();
    const std::size_t token = i / top_k_;
    const std::size_t row = next_row_[rank]++;
    targets_of(message_begin_[rank])[row] = {slots[i], scales[token]};
    std::memcpy(values_of(message_begin_[rank], num_rows_[rank]) + row * hidden_, &values[token * hidden_],
                hidden_);
    answer_rows_[i] = answers_in(answers_[rank].data()) + row * hidden_;
  }
}

Status Outbox::check_answers(const BatchKey& key, Rank self) const {
  for (const Rank rank : ids<Rank>(topology_.num_ranks())) {
    if (rank == self || !topology_.is_alive(rank)) continue;
    const MessageHeader header = read_header(answers_[rank.index()]);
    const std::size_t rows = num_rows_[rank.index()];
    if (Status s = check_header(header, MessageKind::answers, key, rank, rows); !s) return s;
    if (header.num_rows != rows) {
      return failure(Errc::corrupt, fmt::format("rank {} answered {} rows of {} (layer {})", rank.value(),
                                                header.num_rows, rows, key.layer.value()));
    }
  }
  return {};
}

std::span<const float* const> Outbox::answers_of(std::size_t token) const noexcept {
  return std::span(answer_rows_).subspan(token * top_k_, top_k_);
}

Inbox::Inbox(const ModelConfig& config, const Topology& topology, Rank self, std::size_t max_tokens)
    : topology_(topology),
      hidden_(config.width()),
      max_rows_(max_tokens * config.choices()),
      self_(self),
      slots_(topology.slots_of(self)) {
  const auto ranks = static_cast<std::size_t>(topology.num_ranks());
  const std::size_t message_bytes = round_up(rows_bytes(max_rows_, hidden_));
  message_memory_ = make_memory(ranks * message_bytes + line_bytes);
  answer_memory_ = make_memory(ranks * round_up(answer_bytes(max_rows_, hidden_)) + line_bytes);
  answers_.resize(ranks);
  rows_.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    buffers_.emplace_back(message_memory_.get() + r * message_bytes, message_bytes);
  }
}

Status Inbox::open(const BatchKey& key, const Outbox& own) {
  next_answer_ = answer_memory_.get();
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Rank sender{static_cast<std::int32_t>(r)};
    const bool is_own = sender == self_;
    if (!topology_.is_alive(sender)) {
      rows_[r] = {};
      continue;
    }
    const std::span<const std::byte> message = is_own ? own.messages()[r] : buffers_[r];
    if (Status s = read(key, sender, message); !s) return s;
    if (is_own) {
      rows_[r].answers = {answers_in(own.answers()[r].data()), rows_[r].targets.size() * hidden_};
    } else {
      lay_out_answer(key, sender);
    }
  }
  return {};
}

Status Inbox::read(const BatchKey& key, Rank sender, std::span<const std::byte> message) {
  const MessageHeader header = read_header(message);
  if (Status s = check_header(header, MessageKind::rows, key, sender, max_rows_); !s) return s;
  const std::size_t rows = header.num_rows;
  const std::byte* const targets = message.data() + sizeof header;
  const std::byte* const values = targets + rows * sizeof(RowTarget);
  ReceivedRows& received = rows_[sender.index()];
  received.targets = {reinterpret_cast<const RowTarget*>(targets), rows};
  received.values = {reinterpret_cast<const std::int8_t*>(values), rows * hidden_};
  for (std::size_t i = 0; i < rows; ++i) {
    const SlotId slot = received.targets[i].slot;
    if (slots_.contains(slot)) continue;
    return failure(Errc::corrupt,
                   fmt::format("layer {}: rank {} sent row {} to slot {}, which is not of rank {}",
                               key.layer.value(), sender.value(), i, slot.value(), self_.value()));
  }
  return {};
}

void Inbox::lay_out_answer(const BatchKey& key, Rank sender) noexcept {
  ReceivedRows& received = rows_[sender.index()];
  const std::size_t rows = received.targets.size();
  write_header(next_answer_, make_header(MessageKind::answers, key, rows));
  received.answers = {answers_in(next_answer_), rows * hidden_};
  answers_[sender.index()] = {next_answer_, answer_bytes(rows, hidden_)};
  next_answer_ += round_up(answers_[sender.index()].size());
}

}  // namespace trimtab::moe
