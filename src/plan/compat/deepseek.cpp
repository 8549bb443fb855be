// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/greedy_layer.hpp"
#include "plan/compat/shape.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Slots of a layer by expert and copy; the width is known only when all layers are planned.
void index_copies(const EplbPlan& plan, std::span<const std::int32_t> copies,
                  std::span<const std::int64_t> experts, std::span<std::int64_t> slots_of) {
  std::fill(slots_of.begin(), slots_of.end(), -1);
  const auto width = static_cast<std::size_t>(plan.max_copies);
  for (std::size_t slot = 0; slot < experts.size(); ++slot) {
    const std::size_t row = static_cast<std::size_t>(experts[slot]) * width;
    slots_of[row + static_cast<std::size_t>(copies[slot])] = static_cast<std::int64_t>(slot);
  }
}

template <class From>
void widen(std::span<const From> from, std::int64_t* to) {
  std::transform(from.begin(), from.end(), to, [](From value) {
    if constexpr (std::is_same_v<From, ExpertId>) {
      return std::int64_t{value.value()};
    } else {
      return std::int64_t{value};
    }
  });
}

/// Everything but logical_to_physical. Gives the copy number of each slot, [layers][slots].
std::vector<std::int32_t> plan_layers(const LoadMatrix& loads, const EplbShape& shape, EplbPlan& plan,
                                      Executor& executor) {
  const auto num_slots = static_cast<std::size_t>(plan.num_slots);
  const auto num_experts = static_cast<std::size_t>(plan.num_experts);
  std::vector<std::int32_t> copies(static_cast<std::size_t>(plan.num_layers) * num_slots);
  executor.for_each_index(static_cast<std::size_t>(plan.num_layers), [&](std::size_t i) {
    GreedyLayer<TorchRules> layer(plan.num_experts, shape);
    layer.plan(loads.layer(LayerId{static_cast<LayerId::rep>(i)}));
    widen(layer.experts(), plan.physical_to_logical.data() + i * num_slots);
    widen(layer.counts(), plan.logical_count.data() + i * num_experts);
    std::copy(layer.copies().begin(), layer.copies().end(),
              copies.begin() + static_cast<std::ptrdiff_t>(i * num_slots));
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
  plan.max_copies =
      static_cast<std::int32_t>(*std::max_element(plan.logical_count.begin(), plan.logical_count.end()));

  const std::size_t layer_size = num_experts * static_cast<std::size_t>(plan.max_copies);
  plan.logical_to_physical.resize(num_layers * layer_size);
  executor.for_each_index(num_layers, [&](std::size_t i) {
    index_copies(plan, std::span(copies).subspan(i * num_slots, num_slots),
                 std::span(plan.physical_to_logical).subspan(i * num_slots, num_slots),
                 std::span(plan.logical_to_physical).subspan(i * layer_size, layer_size));
  });
  return plan;
}

}  // namespace trimtab
