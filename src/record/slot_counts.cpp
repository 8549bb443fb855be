// SPDX-License-Identifier: Apache-2.0
#include "slot_counts.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {

SlotCounts make_zero(std::int32_t num_layers, std::int32_t num_slots) {
  const auto layers = static_cast<std::size_t>(num_layers);
  SlotCounts window;
  window.num_layers = num_layers;
  window.num_slots = num_slots;
  window.counts.resize(layers * static_cast<std::size_t>(num_slots));
  window.expected.resize(layers);
  return window;
}

void drain_into(SlotCounts& to, SlotCounts& from) {
  const auto width = static_cast<std::size_t>(from.num_slots);
  for (std::size_t layer = 0; layer < from.expected.size(); ++layer) {
    if (from.expected[layer] == 0) continue;
    to.expected[layer] += std::exchange(from.expected[layer], 0);
    const auto source = std::span(from.counts).subspan(layer * width, width);
    const auto target = std::span(to.counts).subspan(layer * width, width);
    for (std::size_t slot = 0; slot < width; ++slot) target[slot] += source[slot];
    std::fill(source.begin(), source.end(), 0);
  }
}

}  // namespace trimtab
