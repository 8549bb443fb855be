// SPDX-License-Identifier: Apache-2.0
#include "moe/expert_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

namespace trimtab::moe {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t line_bytes = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

struct TensorKind {
  const char* name;
  ElementType type;
};
constexpr std::array<TensorKind, 6> kinds{{{"w13", ElementType::int8},
                                           {"w13_scale", ElementType::float32},
                                           {"w13_offset", ElementType::int32},
                                           {"w2", ElementType::int8},
                                           {"w2_scale", ElementType::float32},
                                           {"w2_offset", ElementType::int32}}};

std::array<std::size_t, 6> slot_sizes(const ModelConfig& config) noexcept {
  const std::size_t channels13 = 2 * config.inner();
  const std::size_t channels2 = config.width();
  return {channels13 * config.width(), channels13 * sizeof(float), channels13 * sizeof(std::int32_t),
          channels2 * config.inner(),  channels2 * sizeof(float),  channels2 * sizeof(std::int32_t)};
}

}  // namespace

ExpertMemory::ExpertMemory(const ModelConfig& config, IdRange<SlotId> slots)
    : config_(config), slots_(slots) {
  const auto sizes = slot_sizes(config);
  for (std::size_t i = 0; i < num_tensors; ++i) {
    tensors_[i] = {sizes[i], round_up(sizes[i], line_bytes), layer_bytes_};
    layer_bytes_ += round_up(tensors_[i].stride_bytes * slots.size(), page_bytes);
  }
  const std::size_t bytes = std::max(layer_bytes_ * config.layers(), page_bytes);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, bytes)));
  if (!memory_) throw std::bad_alloc();
  std::memset(memory_.get(), 0, bytes);
}

Status ExpertMemory::load(const Placement& placement) {
  const bool fits =
      placement.num_layers() == config_.num_layers && placement.num_experts() == config_.num_experts &&
      placement.num_slots() >= slots_.first().value() + static_cast<std::int32_t>(slots_.size());
  if (!fits) {
    return failure(
        Errc::invalid_argument,
        fmt::format("placement of {} layers, {} slots, {} experts for a model of {} layers, {} experts "
                    "and slots up to {}",
                    placement.num_layers(), placement.num_slots(), placement.num_experts(),
                    config_.num_layers, config_.num_experts, slots_.first().index() + slots_.size()));
  }
  for (const LayerId layer : ids<LayerId>(config_.num_layers)) {
    for (const SlotId slot : slots_) {
      const ExpertId expert = placement.expert_at(layer, slot);
      if (expert != no_expert) generate_expert(config_, layer, expert, view(layer, slot));
    }
  }
  return {};
}

Status ExpertMemory::register_in(ExpertStore& store) {
  for (const LayerId layer : ids<LayerId>(config_.num_layers)) {
    std::vector<TensorSpec> specs;
    for (std::size_t i = 0; i < num_tensors; ++i) {
      specs.push_back({.name = kinds[i].name,
                       .type = kinds[i].type,
                       .base = tensor_base(layer, i),
                       .num_slots = static_cast<std::int32_t>(slots_.size()),
                       .slot_bytes = tensors_[i].slot_bytes,
                       .stride_bytes = tensors_[i].stride_bytes});
    }
    if (Status registered = store.register_layer(layer, specs); !registered) return registered;
  }
  return {};
}

Bundle ExpertMemory::bundle(LayerId layer, SlotId slot) noexcept { return view(layer, slot); }

ConstBundle ExpertMemory::bundle(LayerId layer, SlotId slot) const noexcept {
  return as_const(view(layer, slot));
}

std::byte* ExpertMemory::tensor_base(LayerId layer, std::size_t tensor) const noexcept {
  return memory_.get() + layer.index() * layer_bytes_ + tensors_[tensor].offset;
}

template <class T>
std::span<T> ExpertMemory::tensor_slot(LayerId layer, std::size_t tensor, SlotId slot) const noexcept {
  const Tensor& shape = tensors_[tensor];
  const std::size_t local = slot.index() - slots_.first().index();
  std::byte* const base = tensor_base(layer, tensor) + local * shape.stride_bytes;
  return {reinterpret_cast<T*>(base), shape.slot_bytes / sizeof(T)};
}

Bundle ExpertMemory::view(LayerId layer, SlotId slot) const noexcept {
  return {tensor_slot<std::int8_t>(layer, 0, slot),  tensor_slot<float>(layer, 1, slot),
          tensor_slot<std::int32_t>(layer, 2, slot), tensor_slot<std::int8_t>(layer, 3, slot),
          tensor_slot<float>(layer, 4, slot),        tensor_slot<std::int32_t>(layer, 5, slot)};
}

}  // namespace trimtab::moe
