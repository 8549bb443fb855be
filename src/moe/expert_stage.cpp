// SPDX-License-Identifier: Apache-2.0
#include "moe/expert_stage.hpp"

#include <algorithm>
#include <cstring>

namespace trimtab::moe {

ExpertStage::ExpertStage(const ModelConfig& config, const ExpertMemory& memory)
    : memory_(memory),
      scratch_(config),
      hidden_(config.width()),
      slots_(memory.slots()),
      kernel_(config),
      next_(slots_.size()) {}

Status ExpertStage::run(LayerId layer, std::span<const ReceivedRows> senders,
                        std::span<std::int64_t> num_rows) {
  group(senders, num_rows);
  std::size_t first = 0;
  for (const SlotId slot : slots_) {
    const auto count = static_cast<std::size_t>(num_rows[slot.index() - slots_.first().index()]);
    const ExpertRows rows{std::span(values_).subspan(first * hidden_, count * hidden_),
                          std::span(scales_).subspan(first, count),
                          std::span(answers_).subspan(first, count)};
    first += count;
    if (count == 0) continue;
    if (Status ran = kernel_.run(memory_.read(layer, slot, scratch_), rows); !ran) return ran;
  }
  return {};
}

void ExpertStage::group(std::span<const ReceivedRows> senders, std::span<std::int64_t> num_rows) {
  std::fill(num_rows.begin(), num_rows.end(), 0);
  std::size_t total = 0;
  for (const ReceivedRows& sender : senders) {
    for (const RowTarget& target : sender.targets) ++num_rows[target.slot.index() - slots_.first().index()];
    total += sender.targets.size();
  }
  if (scales_.size() < total) {
    values_.resize(total * hidden_);
    scales_.resize(total);
    answers_.resize(total);
  }
  std::size_t first = 0;
  for (std::size_t s = 0; s < next_.size(); ++s) {
    next_[s] = first;
    first += static_cast<std::size_t>(num_rows[s]);
  }
  for (const ReceivedRows& sender : senders) place(sender);
}

void ExpertStage::place(const ReceivedRows& sender) noexcept {
  for (std::size_t i = 0; i < sender.targets.size(); ++i) {
    const RowTarget& target = sender.targets[i];
    const std::size_t row = next_[target.slot.index() - slots_.first().index()]++;
    std::memcpy(&values_[row * hidden_], &sender.values[i * hidden_], hidden_);
    scales_[row] = target.scale;
    answers_[row] = &sender.answers[i * hidden_];
  }
}

}  // namespace trimtab::moe
