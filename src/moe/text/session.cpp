// SPDX-License-Identifier: Apache-2.0
#include "moe/text/session.hpp"

#include <trimtab/core/checksum.hpp>

#include <algorithm>
#include <array>

namespace trimtab::moe {

std::size_t sequences_for(const TextTraffic& traffic, std::size_t max_rows) noexcept {
  // Those that began together are continued together, so that at first half as many more are.
  return max_rows * traffic.new_bytes * 3 / (traffic.num_positions() * 2) + 2;
}

TextSession::TextSession(const TextModel& model, const TextTraffic& traffic, Rank rank, std::size_t max_rows)
    : traffic_(traffic),
      rank_(rank),
      max_rows_(max_rows),
      config_(model.config),
      layers_(model, sequences_for(traffic, max_rows), traffic.num_positions()),
      choices_(model.config.experts.layers()) {
  for (std::size_t place = sequences_for(traffic, max_rows); place-- > 0;) free_.push_back(place);
  counts_.domains.resize(traffic.domains.size());
  counts_.heat.resize(traffic.domains.size() * config_.experts.layers() * config_.experts.experts());
}

Status TextSession::before(LayerId layer, std::span<float> states) { return layers_.before(layer, states); }

Status TextSession::beside(LayerId layer, const GateStage& gate, std::span<float> states) {
  choices_[layer.index()].assign(gate.experts().begin(), gate.experts().end());
  return layers_.beside(layer, gate, states);
}

std::uint8_t TextSession::byte_at(const Sequence& sequence, std::size_t position) noexcept {
  const std::vector<std::uint8_t>& prompt = sequence.answer.request.prompt;
  return position < prompt.size() ? prompt[position] : sequence.answer.said[position - prompt.size()];
}

bool TextSession::is_prefilling(const Sequence& sequence) noexcept {
  return sequence.position < sequence.answer.request.prompt.size();
}

void TextSession::take_rows(Sequence& sequence, std::size_t count) {
  (is_prefilling(sequence) ? counts_.prefilled : counts_.decoded) += static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t position = sequence.position + i;
    rows_.push_back({sequence.place, position});
    origins_.push_back({sequence.answer.request.id, sequence.answer.request.domain, position,
                        position < sequence.answer.request.prompt.size()});
    bytes_.push_back(byte_at(sequence, position));
  }
  sequence.num_rows = count;
}

void TextSession::admit(Forward forward) {
  const std::size_t place = free_.back();
  free_.pop_back();
  active_.push_back(
      {.answer = {.request = make_request(traffic_, rank_, num_requests_++, forward)}, .place = place});
}

/// What is being said goes first, then the prompts that are begun, then new ones.
std::span<float> TextSession::begin(Forward forward) {
  rows_.clear();
  origins_.clear();
  bytes_.clear();
  std::ranges::for_each(active_, [](Sequence& sequence) { sequence.num_rows = 0; });
  for (Sequence& sequence : active_) {
    if (!is_prefilling(sequence) && rows_.size() < max_rows_) take_rows(sequence, 1);
  }
  for (std::size_t i = 0; rows_.size() < max_rows_; ++i) {
    if (i == active_.size() && free_.empty()) break;
    if (i == active_.size()) admit(forward);
    Sequence& sequence = active_[i];
    if (!is_prefilling(sequence)) continue;
    take_rows(sequence,
              std::min(sequence.answer.request.prompt.size() - sequence.position, max_rows_ - rows_.size()));
  }
  states_.resize(rows_.size() * config_.width());
  layers_.begin(rows_, bytes_, states_);
  return states_;
}

void TextSession::finish_row(Sequence& sequence, std::span<const float> logits) {
  TextAnswer& answer = sequence.answer;
  const std::vector<std::uint8_t>& prompt = answer.request.prompt;
  const std::array<std::uint64_t, 2> both{answer.digest, checksum_of(std::as_bytes(logits))};
  answer.digest = checksum_of(std::as_bytes(std::span(both)));
  const std::size_t next = ++sequence.position;
  if (next >= prompt.size()) {
    answer.said.push_back(choose_byte(logits, traffic_.sampling, answer.request.id, next));
    return;
  }
  const double bits = bits_of(logits, prompt[next]);
  answer.bits += bits;
  DomainCount& domain = counts_.domains[answer.request.domain];
  ++domain.bytes;
  domain.bits += bits;
}

/// Rows lie in the order in which they were taken: what is said first.
void TextSession::finish_rows(std::span<const float> logits) {
  std::vector<Sequence*> order;
  for (const bool wanted : {false, true}) {
    for (Sequence& sequence : active_) {
      if (sequence.num_rows > 0 && is_prefilling(sequence) == wanted) order.push_back(&sequence);
    }
  }
  const std::size_t vocabulary = config_.tokens();
  std::size_t row = 0;
  for (Sequence* sequence : order) {
    for (; sequence->num_rows > 0; --sequence->num_rows, ++row)
      finish_row(*sequence, logits.subspan(row * vocabulary, vocabulary));
  }
}

void TextSession::count_heat() {
  const std::size_t experts = config_.experts.experts();
  const std::size_t layers = config_.experts.layers();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = 0; i < choices_[layer].size(); ++i) {
      const std::size_t domain = origins_[i / config_.experts.choices()].domain;
      ++counts_.heat[(domain * layers + layer) * experts + choices_[layer][i].index()];
    }
  }
}

/// Lets go of what is done.
void TextSession::retire() {
  std::erase_if(active_, [&](Sequence& sequence) {
    if (sequence.answer.said.size() < traffic_.new_bytes) return false;
    free_.push_back(sequence.place);
    ++counts_.domains[sequence.answer.request.domain].requests;
    answers_.push_back(std::move(sequence.answer));
    return true;
  });
}

const TextAnswer* TextSession::being_said() const noexcept {
  const auto found =
      std::ranges::find_if(active_, [](const Sequence& sequence) { return !sequence.answer.said.empty(); });
  return found == active_.end() ? nullptr : &found->answer;
}

std::uint64_t TextSession::finish() {
  const std::span<const float> logits = layers_.finish(states_);
  finish_rows(logits);
  count_heat();
  retire();
  const std::array<std::uint64_t, 2> both{checksum_of(std::as_bytes(std::span(states_))),
                                          checksum_of(std::as_bytes(logits))};
  return checksum_of(std::as_bytes(std::span(both)));
}

}  // namespace trimtab::moe
