// SPDX-License-Identifier: Apache-2.0
#include <trimtab/record/recorder.hpp>

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace trimtab {
namespace {

Status check_shapes(const SlotCounts& window, const Placement& placement) {
  if (window.num_layers != placement.num_layers() || window.num_slots != placement.num_slots()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("counts of {} layers x {} slots under a placement of {} x {}", window.num_layers,
                    window.num_slots, placement.num_layers(), placement.num_slots()));
  }
  const auto layers = static_cast<std::size_t>(window.num_layers);
  const auto entries = layers * static_cast<std::size_t>(window.num_slots);
  if (window.counts.size() != entries || window.expected.size() != layers) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} counts and {} expectations for {} layers x {} slots", window.counts.size(),
                               window.expected.size(), window.num_layers, window.num_slots));
  }
  return {};
}

Status check_slot(LayerId layer, SlotId slot, ExpertId expert, std::int64_t count) {
  if (count < 0) {
    return failure(Errc::corrupt,
                   fmt::format("layer {}, slot {}: count {} < 0", layer.value(), slot.value(), count));
  }
  if (expert == no_expert && count != 0) {
    return failure(Errc::invalid_argument, fmt::format("layer {}, slot {}: vacant, but counted {} times",
                                                       layer.value(), slot.value(), count));
  }
  return {};
}

/// Of numbers that are not negative. Counts may come from other ranks, so no sum may be undefined.
std::int64_t add_saturated(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  return b > limit - a ? limit : a + b;
}

/// Adds one layer's slots into its experts.
Status fold_layer(LayerId layer, std::span<const std::int64_t> slots, std::int64_t expected,
                  std::span<const ExpertId> held, std::span<std::int64_t> experts) {
  std::int64_t sum = 0;
  for (SlotId slot : ids<SlotId>(slots.size())) {
    const std::int64_t count = slots[slot.index()];
    const ExpertId expert = held[slot.index()];
    if (Status checked = check_slot(layer, slot, expert, count); !checked) return checked;
    sum = add_saturated(sum, count);
    if (expert != no_expert) experts[expert.index()] = add_saturated(experts[expert.index()], count);
  }
  if (sum == expected) return {};
  return failure(Errc::corrupt,
                 fmt::format("layer {}: {} assignments counted, {} expected (valid tokens x top-k)",
                             layer.value(), sum, expected));
}

}  // namespace

Result<ExpertCounts> fold_counts(const SlotCounts& window, const Placement& placement) {
  if (Status shapes = check_shapes(window, placement); !shapes) return failure(std::move(shapes));
  const auto num_slots = static_cast<std::size_t>(placement.num_slots());
  const auto num_experts = static_cast<std::size_t>(placement.num_experts());
  ExpertCounts folded;
  folded.num_layers = placement.num_layers();
  folded.num_experts = placement.num_experts();
  folded.counts.resize(static_cast<std::size_t>(placement.num_layers()) * num_experts);
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    const auto slots = std::span(window.counts).subspan(layer.index() * num_slots, num_slots);
    const auto experts = std::span(folded.counts).subspan(layer.index() * num_experts, num_experts);
    Status checked =
        fold_layer(layer, slots, window.expected[layer.index()], placement.layer(layer), experts);
    if (!checked) return failure(std::move(checked));
  }
  return folded;
}

}  // namespace trimtab
