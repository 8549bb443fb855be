// SPDX-License-Identifier: Apache-2.0
#include "moe/expert_memory.hpp"

#include <trimtab/core/assert.hpp>

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

constexpr std::size_t w13 = 0;
constexpr std::size_t w2 = 3;

struct TensorKind {
  const char* name;
  ElementType type;
  bool is_scale = false;
};
constexpr std::array<TensorKind, 6> kinds{{{"w13", ElementType::int8},
                                           {"w13_scale", ElementType::float32, true},
                                           {"w13_offset", ElementType::int32},
                                           {"w2", ElementType::int8},
                                           {"w2_scale", ElementType::float32, true},
                                           {"w2_offset", ElementType::int32}}};

std::array<NzShape, 6> slot_shapes(const ModelConfig& config) noexcept {
  const std::size_t channels13 = 2 * config.inner();
  const std::size_t channels2 = config.width();
  return {{{channels13, config.width()},
           {1, channels13 * sizeof(float)},
           {1, channels13 * sizeof(std::int32_t)},
           {channels2, config.inner()},
           {1, channels2 * sizeof(float)},
           {1, channels2 * sizeof(std::int32_t)}}};
}

}  // namespace

ExpertMemory::ExpertMemory(const ModelConfig& config, IdRange<SlotId> slots, WeightLayout layout)
    : config_(config), slots_(slots), layout_(layout) {
  const auto shapes = slot_shapes(config);
  for (std::size_t i = 0; i < num_tensors; ++i) {
    const bool is_nz = layout == WeightLayout::nz && (i == w13 || i == w2);
    const std::size_t bytes = shapes[i].rows * shapes[i].row_bytes;
    tensors_[i] = {.matrix = shapes[i],
                   .layout = {is_nz ? Format::fractal_nz : Format::nd, shapes[i].rows, 0},
                   .slot_bytes = bytes,
                   .stride_bytes = is_nz ? nz_bytes(shapes[i]) : round_up(bytes, line_bytes),
                   .offset = layer_bytes_};
    layer_bytes_ += round_up(tensors_[i].stride_bytes * slots.size(), page_bytes);
  }
  const std::size_t bytes = std::max(layer_bytes_ * config.layers(), page_bytes);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, bytes)));
  if (!memory_) throw std::bad_alloc();
  std::memset(memory_.get(), 0, bytes);
}

Status ExpertMemory::load(const Placement& placement) { return load(placement, GeneratedWeights(config_)); }

Status ExpertMemory::load(const Placement& placement, const WeightSource& source) {
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
  ExpertBuffer scratch(config_);
  for (const LayerId layer : ids<LayerId>(config_.num_layers)) {
    for (const SlotId slot : slots_) {
      const ExpertId expert = placement.expert_at(layer, slot);
      if (expert != no_expert) fill(layer, slot, expert, source, scratch);
    }
  }
  return {};
}

void ExpertMemory::fill(LayerId layer, SlotId slot, ExpertId expert, const WeightSource& source,
                        ExpertBuffer& scratch) noexcept {
  Bundle out = view(layer, slot);
  if (layout_ == WeightLayout::dense) return source.fill_expert(layer, expert, out);
  out.w13 = scratch.bundle().w13;
  out.w2 = scratch.bundle().w2;
  source.fill_expert(layer, expert, out);
  nd_to_nz(tensors_[w13].matrix, std::as_bytes(out.w13), stored(layer, w13, slot));
  nd_to_nz(tensors_[w2].matrix, std::as_bytes(out.w2), stored(layer, w2, slot));
}

TensorSpec ExpertMemory::spec_of(LayerId layer, std::size_t tensor) const {
  TensorSpec spec;
  spec.name = kinds[tensor].name;
  spec.type = kinds[tensor].type;
  spec.base = tensor_base(layer, tensor);
  spec.num_slots = static_cast<std::int32_t>(slots_.size());
  spec.slot_bytes = tensors_[tensor].slot_bytes;
  spec.stride_bytes = tensors_[tensor].stride_bytes;
  spec.layout = tensors_[tensor].layout;
  return spec;
}

Status ExpertMemory::register_in(ExpertStore& store, RegisteredTensors which) {
  for (const LayerId layer : ids<LayerId>(config_.num_layers)) {
    std::vector<TensorSpec> specs;
    for (std::size_t i = 0; i < num_tensors; ++i) {
      if (which == RegisteredTensors::without_scales && kinds[i].is_scale) continue;
      specs.push_back(spec_of(layer, i));
    }
    if (Status registered = store.register_layer(layer, specs); !registered) return registered;
  }
  return {};
}

Bundle ExpertMemory::bundle(LayerId layer, SlotId slot) noexcept {
  TRIMTAB_ASSERT(layout_ == WeightLayout::dense);
  return view(layer, slot);
}

ConstBundle ExpertMemory::bundle(LayerId layer, SlotId slot) const noexcept {
  TRIMTAB_ASSERT(layout_ == WeightLayout::dense);
  return as_const(view(layer, slot));
}

ConstBundle ExpertMemory::read(LayerId layer, SlotId slot, ExpertBuffer& scratch) const noexcept {
  Bundle read = view(layer, slot);
  if (layout_ == WeightLayout::dense) return as_const(read);
  read.w13 = scratch.bundle().w13;
  read.w2 = scratch.bundle().w2;
  nz_to_nd(tensors_[w13].matrix, stored(layer, w13, slot), std::as_writable_bytes(read.w13));
  nz_to_nd(tensors_[w2].matrix, stored(layer, w2, slot), std::as_writable_bytes(read.w2));
  return as_const(read);
}

std::byte* ExpertMemory::tensor_base(LayerId layer, std::size_t tensor) const noexcept {
  return memory_.get() + layer.index() * layer_bytes_ + tensors_[tensor].offset;
}

std::span<std::byte> ExpertMemory::stored(LayerId layer, std::size_t tensor, SlotId slot) const noexcept {
  const std::size_t local = slot.index() - slots_.first().index();
  const std::size_t stride = tensors_[tensor].stride_bytes;
  return {tensor_base(layer, tensor) + local * stride, stride};
}

template <class T>
std::span<T> ExpertMemory::tensor_slot(LayerId layer, std::size_t tensor, SlotId slot) const noexcept {
  return {reinterpret_cast<T*>(stored(layer, tensor, slot).data()), tensors_[tensor].slot_bytes / sizeof(T)};
}

Bundle ExpertMemory::view(LayerId layer, SlotId slot) const noexcept {
  return {tensor_slot<std::int8_t>(layer, 0, slot),  tensor_slot<float>(layer, 1, slot),
          tensor_slot<std::int32_t>(layer, 2, slot), tensor_slot<std::int8_t>(layer, 3, slot),
          tensor_slot<float>(layer, 4, slot),        tensor_slot<std::int32_t>(layer, 5, slot)};
}

}  // namespace trimtab::moe
