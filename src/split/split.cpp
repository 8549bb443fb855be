// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split.hpp>

#include <fmt/format.h>

#include <utility>

namespace trimtab {

Result<Split> Split::make(std::int32_t num_layers, std::int32_t num_slots,
                          std::vector<std::int64_t> assignments) {
  if (num_layers < 1 || num_slots < 1) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} layers x {} slots: both must be at least 1", num_layers, num_slots));
  }
  const auto width = static_cast<std::size_t>(num_slots);
  if (assignments.size() != width * static_cast<std::size_t>(num_layers)) {
    return failure(Errc::invalid_argument, fmt::format("a split of {} numbers for {} layers x {} slots",
                                                       assignments.size(), num_layers, num_slots));
  }
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    if (assignments[i] >= 0) continue;
    return failure(Errc::invalid_argument, fmt::format("layer {}, slot {}: {} assignments are less than 0",
                                                       i / width, i % width, assignments[i]));
  }
  return Split(num_layers, num_slots, std::move(assignments));
}

Split::Split(std::int32_t num_layers, std::int32_t num_slots, std::vector<std::int64_t> assignments)
    : num_layers_(num_layers), num_slots_(num_slots), assignments_(std::move(assignments)) {}

std::span<const std::int64_t> Split::layer(LayerId layer) const noexcept {
  const auto width = static_cast<std::size_t>(num_slots_);
  return std::span(assignments_).subspan(layer.index() * width, width);
}

}  // namespace trimtab
