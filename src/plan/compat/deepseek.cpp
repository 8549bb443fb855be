// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/greedy_layer.hpp"
#include "plan/compat/shape.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace trimtab {
namespace {

/// That share one set of scratch memory.
constexpr std::size_t layers_per_task = 4;

/// Slots of a layer by expert and copy; the width is known only when all layers are planned.
void index_copies(std::size_t width, std::span<const std::int32_t> copies, std::span<const ExpertId> experts,
                  std::span<SlotId> slots_of) {
  // Most of it is padding, and std::fill takes three times as long for a class.
  static_assert(std::is_trivially_copyable_v<SlotId> && no_slot == SlotId{-1});
  std::memset(static_cast<void*>(slots_of.data()), 0xff, slots_of.size_bytes());
  for (SlotId slot : ids<SlotId>(experts.size())) {
    const auto copy = static_cast<std::size_t>(copies[slot.index()]);
    slots_of[experts[slot.index()].index() * width + copy] = slot;
  }
}

template <class T>
void copy_row(std::span<const T> row, std::vector<T>& rows, std::size_t index) {
  std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(index * row.size()));
}

/// Everything but logical_to_physical. Gives the copy number of each slot, [layers][slots].
std::vector<std::int32_t> plan_layers(const LoadMatrix& loads, const EplbShape& shape, EplbPlan& plan,
                                      Executor& executor) {
  std::vector<std::int32_t> copies(plan.physical_to_logical.size());
  const auto num_layers = static_cast<std::size_t>(plan.num_layers);
  executor.for_each_index((num_layers + layers_per_task - 1) / layers_per_task, [&](std::size_t task) {
    GreedyLayer<TorchRules> layer(plan.num_experts, shape);
    const std::size_t first = task * layers_per_task;
    for (std::size_t i = first; i < std::min(first + layers_per_task, num_layers); ++i) {
      layer.plan(loads.layer(LayerId{static_cast<LayerId::rep>(i)}));
      copy_row(layer.experts(), plan.physical_to_logical, i);
      copy_row(layer.counts(), plan.logical_count, i);
      copy_row(layer.copies(), copies, i);
    }
  });
  return copies;
}

}  // namespace

Result<EplbPlan> rebalance_experts(const LoadMatrix& loads, const EplbShape& shape, Executor& executor) {
  if (Status ok = check_shape(loads.num_experts(), shape); !ok) return failure(std::move(ok));
  if (Status ok = check_totals(loads); !ok) return failure(std::move(ok));
  const auto num_layers = static_cast<std::size_t>(loads.num_layers());
  const auto num_slots = static_cast<std::size_t>(shape.num_slots);
  const auto num_experts = static_cast<std::size_t>(loads.num_experts());

  EplbPlan plan{
      .num_layers = loads.num_layers(), .num_slots = shape.num_slots, .num_experts = loads.num_experts()};
  plan.physical_to_logical.resize(num_layers * num_slots);
  plan.logical_count.resize(num_layers * num_experts);
  const std::vector<std::int32_t> copies = plan_layers(loads, resolve_shape(shape), plan, executor);
  plan.max_copies = *std::max_element(plan.logical_count.begin(), plan.logical_count.end());

  const auto width = static_cast<std::size_t>(plan.max_copies);
  const std::size_t layer_size = num_experts * width;
  plan.logical_to_physical.resize(num_layers * layer_size);
  executor.for_each_index(num_layers, [&](std::size_t i) {
    index_copies(width, std::span(copies).subspan(i * num_slots, num_slots),
                 std::span(plan.physical_to_logical).subspan(i * num_slots, num_slots),
                 std::span(plan.logical_to_physical).subspan(i * layer_size, layer_size));
  });
  return plan;
}

}  // namespace trimtab
