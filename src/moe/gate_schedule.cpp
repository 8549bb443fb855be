// SPDX-License-Identifier: Apache-2.0
#include "moe/gate_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::moe {

Result<GateSchedule> GateSchedule::make(const ModelConfig& config, std::vector<float> bias,
                                        std::uint64_t num_forwards) {
  const std::size_t phase_size = config.layers() * config.experts();
  if (bias.empty() || bias.size() % phase_size != 0) {
    return failure(Errc::invalid_argument, fmt::format("{} biases are no phases of {} layers x {} experts",
                                                       bias.size(), config.num_layers, config.num_experts));
  }
  if (num_forwards < 1) return failure(Errc::invalid_argument, "forwards 0 < 1");
  return GateSchedule(phase_size, std::move(bias), num_forwards);
}

GateSchedule::GateSchedule(std::size_t phase_size, std::vector<float> bias, std::uint64_t num_forwards)
    : phase_size_(phase_size), bias_(std::move(bias)), num_forwards_(num_forwards) {}

double GateSchedule::phase_at(Forward forward) const noexcept {
  if (num_forwards_ == 1) return 0.0;
  const std::uint64_t last = num_forwards_ - 1;
  const double progress = static_cast<double>(std::min(forward.value(), last)) / static_cast<double>(last);
  return progress * static_cast<double>(num_phases() - 1);
}

void GateSchedule::bias_at(Forward forward, std::span<float> out) const noexcept {
  const double phase = phase_at(forward);
  const auto before = static_cast<std::size_t>(phase);
  const std::size_t after = std::min(before + 1, num_phases() - 1);
  const double share = phase - static_cast<double>(before);
  for (std::size_t i = 0; i < phase_size_; ++i) {
    const double from = static_cast<double>(bias_[before * phase_size_ + i]);
    const double to = static_cast<double>(bias_[after * phase_size_ + i]);
    out[i] = static_cast<float>(from + (to - from) * share);
  }
}

}  // namespace trimtab::moe
