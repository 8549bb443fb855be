// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/core/checksum.hpp>
#include <trimtab/weights/expert_store.hpp>

#include "tensor_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace trimtab {
namespace {

/// Small enough that both sides and the block stay in the first-level cache.
constexpr std::size_t swap_block_bytes = 4096;

void swap_bytes(std::span<std::byte> a, std::span<std::byte> b) noexcept {
  std::array<std::byte, swap_block_bytes> block;
  while (!a.empty()) {
    const std::size_t size = std::min(a.size(), block.size());
    std::memcpy(block.data(), a.data(), size);
    std::memcpy(a.data(), b.data(), size);
    std::memcpy(b.data(), block.data(), size);
    a = a.subspan(size);
    b = b.subspan(size);
  }
}

std::uint64_t checksum_seed(LayerId layer, ExpertId expert) noexcept {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(layer.value())) << 32) |
         static_cast<std::uint32_t>(expert.value());
}

}  // namespace

std::size_t size_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8:
      return 1;
    case ElementType::float16:
    case ElementType::bfloat16:
      return 2;
    case ElementType::int32:
    case ElementType::float32:
      return 4;
  }
  return 1;
}

ExpertStore::ExpertStore(std::int32_t num_layers, IdRange<SlotId> slots)
    : slots_(slots), layers_(static_cast<std::size_t>(num_layers)) {}

Status ExpertStore::register_layer(LayerId layer, std::span<const TensorSpec> tensors) {
  if (tensors.empty()) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: no tensors", layer.value()));
  }
  if (!ids<LayerId>(num_layers()).contains(layer)) {
    return failure(Errc::invalid_argument, fmt::format("layer {}, tensor {}: the layer is not in 0..{}",
                                                       layer.value(), tensors[0].name, num_layers() - 1));
  }
  if (!this->tensors(layer).empty()) {
    return failure(Errc::invalid_argument, fmt::format("layer {}, tensor {}: the layer is registered already",
                                                       layer.value(), tensors[0].name));
  }
  std::vector<Extent> extents;
  for (LayerId other : ids<LayerId>(num_layers())) {
    for (const TensorSpec& tensor : this->tensors(other)) extents.push_back(extent_of(other, tensor));
  }
  Layer bundle;
  for (const TensorSpec& tensor : tensors) {
    if (Status checked = check_tensor(layer, tensor, slots_.size()); !checked) return checked;
    extents.push_back(extent_of(layer, tensor));
    bundle.tensors.push_back(tensor);
    bundle.bundle_bytes += tensor.slot_bytes;
  }
  if (Status apart = check_apart(std::move(extents)); !apart) return apart;
  layers_[layer.index()] = std::move(bundle);
  return {};
}

std::span<const TensorSpec> ExpertStore::tensors(LayerId layer) const noexcept {
  if (!ids<LayerId>(num_layers()).contains(layer)) return {};
  return layers_[layer.index()].tensors;
}

std::size_t ExpertStore::bundle_bytes(LayerId layer) const noexcept {
  if (!ids<LayerId>(num_layers()).contains(layer)) return 0;
  return layers_[layer.index()].bundle_bytes;
}

std::span<std::byte> ExpertStore::tensor_slot(LayerId layer, std::size_t tensor, SlotId slot) const noexcept {
  TRIMTAB_ASSERT(tensor < tensors(layer).size() && slots_.contains(slot));
  const TensorSpec& spec = layers_[layer.index()].tensors[tensor];
  return {spec.base + (slot.index() - slots_.first().index()) * spec.stride_bytes, spec.slot_bytes};
}

void ExpertStore::read_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) const noexcept {
  TRIMTAB_ASSERT(bundle.size() == bundle_bytes(layer));
  for (std::size_t tensor = 0; tensor < tensors(layer).size(); ++tensor) {
    const std::span<const std::byte> from = tensor_slot(layer, tensor, slot);
    std::memcpy(bundle.data(), from.data(), from.size());
    bundle = bundle.subspan(from.size());
  }
}

void ExpertStore::exchange_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) noexcept {
  TRIMTAB_ASSERT(bundle.size() == bundle_bytes(layer));
  for (std::size_t tensor = 0; tensor < tensors(layer).size(); ++tensor) {
    const std::span<std::byte> live = tensor_slot(layer, tensor, slot);
    swap_bytes(live, bundle.first(live.size()));
    bundle = bundle.subspan(live.size());
  }
}

std::uint64_t ExpertStore::checksum(LayerId layer, SlotId slot, ExpertId expert) const noexcept {
  Checksum running(checksum_seed(layer, expert));
  for (std::size_t tensor = 0; tensor < tensors(layer).size(); ++tensor) {
    running.update(tensor_slot(layer, tensor, slot));
  }
  return running.digest();
}

std::uint64_t ExpertStore::checksum(LayerId layer, std::span<const std::byte> bundle,
                                    ExpertId expert) noexcept {
  return checksum_of(bundle, checksum_seed(layer, expert));
}

}  // namespace trimtab
