// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/core/checksum.hpp>
#include <trimtab/weights/expert_store.hpp>

#include "bundle_checks.hpp"
#include "core/bulk_copy.hpp"
#include "layer_copy.hpp"
#include "nd_copy.hpp"
#include "workspaces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

std::uint64_t checksum_seed(LayerId layer, ExpertId expert) noexcept {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(layer.value())) << 32) |
         static_cast<std::uint32_t>(expert.value());
}

void update_name(Checksum& running, const std::string& name) noexcept {
  running.update_value(name.size());
  running.update(std::as_bytes(std::span(name)));
}

void update_identity(Checksum& running, const TensorSpec& tensor) noexcept {
  StorageIdentity now{tensor.base, tensor.layout.format};
  if (tensor.storage != nullptr) now = tensor.storage->identity();
  update_name(running, tensor.name);
  running.update_value(now.base);
  running.update_value(now.format);
  running.update_value(tensor.type);
  running.update_value(tensor.num_slots);
  running.update_value(tensor.num_fused);
  running.update_value(tensor.slot_bytes);
  running.update_value(tensor.stride_bytes);
  running.update_value(tensor.layout.rows);
  running.update_value(tensor.layout.row_pitch_bytes);
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
    : slots_(slots),
      layers_(static_cast<std::size_t>(num_layers)),
      workspaces_(std::make_unique<Workspaces>()),
      copy_(std::make_unique<LayerCopy>(*workspaces_, slots.size())) {}

ExpertStore::~ExpertStore() = default;

/// Whether `layer` may be registered still.
Status ExpertStore::check_layer(LayerId layer, std::string_view first_tensor) const {
  if (!ids<LayerId>(num_layers()).contains(layer)) {
    return failure(Errc::invalid_argument, fmt::format("layer {}, tensor {}: the layer is not in 0..{}",
                                                       layer.value(), first_tensor, num_layers() - 1));
  }
  if (!tensors(layer).empty()) {
    return failure(Errc::invalid_argument, fmt::format("layer {}, tensor {}: the layer is registered already",
                                                       layer.value(), first_tensor));
  }
  return {};
}

Status ExpertStore::expect_bundle(LayerId layer, std::vector<BundleTensor> bundle) {
  const std::string_view first = bundle.empty() ? "none" : std::string_view(bundle.front().name);
  if (Status open = check_layer(layer, first); !open) return open;
  layers_[layer.index()].expected = std::move(bundle);
  return {};
}

Status ExpertStore::register_layer(LayerId layer, std::span<const TensorSpec> tensors) {
  if (tensors.empty()) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: no tensors", layer.value()));
  }
  if (Status open = check_layer(layer, tensors.front().name); !open) return open;
  Layer& entry = layers_[layer.index()];
  if (Status sound = check_tensors(layer, tensors, slots_.size()); !sound) return sound;
  if (Status same = check_expected(layer, tensors, entry.expected); !same) return same;
  std::vector<Extent> extents;
  for (LayerId other : ids<LayerId>(num_layers())) {
    for (const TensorSpec& tensor : this->tensors(other)) extents.push_back(extent_of(other, tensor));
  }
  std::vector<std::size_t> copies;
  for (const TensorSpec& tensor : tensors) {
    extents.push_back(extent_of(layer, tensor));
    copies.push_back(nd_copy_bytes(tensor));
  }
  if (Status apart = check_apart(std::move(extents)); !apart) return apart;
  entry.workspaces = workspaces_->reserve(copies);
  entry.tensors.assign(tensors.begin(), tensors.end());
  for (const TensorSpec& tensor : tensors) entry.bundle_bytes += tensor.slot_bytes;
  entry.needs_workspace = !std::ranges::all_of(tensors, is_addressable);
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

std::uint64_t ExpertStore::bundle_hash() const noexcept {
  Checksum running;
  for (const Layer& layer : layers_) {
    running.update_value(layer.tensors.size());
    for (const TensorSpec& tensor : layer.tensors) {
      update_name(running, tensor.name);
      running.update_value(tensor.type);
      running.update_value(tensor.slot_bytes);
    }
  }
  return running.digest();
}

std::uint64_t ExpertStore::fingerprint() const noexcept {
  Checksum running;
  for (const Layer& layer : layers_) {
    running.update_value(layer.tensors.size());
    for (const TensorSpec& tensor : layer.tensors) update_identity(running, tensor);
  }
  return running.digest();
}

std::size_t ExpertStore::workspace_bytes() const noexcept { return workspaces_->total_bytes(); }

bool ExpertStore::needs_workspace(LayerId layer) const noexcept {
  return ids<LayerId>(num_layers()).contains(layer) && layers_[layer.index()].needs_workspace;
}

bool ExpertStore::try_acquire_workspaces() noexcept { return !std::exchange(is_acquired_, true); }

void ExpertStore::release_workspaces() noexcept { is_acquired_ = false; }

void ExpertStore::open_layer(LayerId layer) noexcept {
  if (!needs_workspace(layer)) return;
  TRIMTAB_ASSERT(!open_);
  const Layer& entry = layers_[layer.index()];
  copy_->begin(entry.tensors, entry.workspaces);
  open_ = layer;
}

bool ExpertStore::convert_slot(LayerId layer, SlotId slot, std::size_t max_bytes) noexcept {
  if (!needs_workspace(layer)) return true;
  TRIMTAB_ASSERT(open_ == layer && slots_.contains(slot));
  return copy_->convert(local(slot), max_bytes);
}

bool ExpertStore::is_converted(LayerId layer, SlotId slot) const noexcept {
  if (!needs_workspace(layer)) return true;
  return open_ == layer && copy_->is_converted(local(slot));
}

void ExpertStore::begin_layer(LayerId layer) noexcept {
  open_layer(layer);
  for (SlotId slot : slots_) {
    while (!convert_slot(layer, slot, bundle_bytes(layer))) {
    }
  }
}

void ExpertStore::end_layer(LayerId layer) noexcept {
  if (!needs_workspace(layer)) return;
  TRIMTAB_ASSERT(open_ == layer);
  open_.reset();
  copy_->write_back();
}

std::uint64_t ExpertStore::bytes_converted() const noexcept { return copy_->bytes_converted(); }

std::span<std::byte> ExpertStore::tensor_slot(LayerId layer, std::size_t tensor, SlotId slot) const noexcept {
  TRIMTAB_ASSERT(tensor < tensors(layer).size() && is_addressable(tensors(layer)[tensor]));
  return payload(layer, tensor, slot);
}

std::span<const std::byte> ExpertStore::tensor_payload(LayerId layer, std::size_t tensor,
                                                       SlotId slot) const noexcept {
  return payload(layer, tensor, slot);
}

/// Where the slot's rows lie one after another: in storage or in the workspace.
std::span<std::byte> ExpertStore::payload(LayerId layer, std::size_t tensor, SlotId slot) const noexcept {
  TRIMTAB_ASSERT(tensor < tensors(layer).size() && slots_.contains(slot));
  const Layer& entry = layers_[layer.index()];
  const TensorSpec& spec = entry.tensors[tensor];
  const bool is_in_storage = entry.workspaces[tensor] == Workspaces::none;
  if (is_in_storage) return {spec.base + local(slot) * spec.stride_bytes, spec.slot_bytes};
  TRIMTAB_ASSERT(is_converted(layer, slot));
  return copy_->rows(tensor, local(slot));
}

void ExpertStore::read_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) const noexcept {
  TRIMTAB_ASSERT(bundle.size() == bundle_bytes(layer));
  for (std::size_t tensor = 0; tensor < tensors(layer).size(); ++tensor) {
    const std::span<const std::byte> from = payload(layer, tensor, slot);
    bulk_copy(bundle.first(from.size()), from);
    bundle = bundle.subspan(from.size());
  }
}

void ExpertStore::exchange_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) noexcept {
  TRIMTAB_ASSERT(bundle.size() == bundle_bytes(layer));
  for (std::size_t tensor = 0; tensor < tensors(layer).size(); ++tensor) {
    const std::span<std::byte> live = payload(layer, tensor, slot);
    bulk_swap(live, bundle.first(live.size()));
    bundle = bundle.subspan(live.size());
  }
  if (needs_workspace(layer)) copy_->mark_changed(local(slot));
}

std::uint64_t ExpertStore::checksum(LayerId layer, SlotId slot, ExpertId expert) const noexcept {
  Checksum running = start_checksum(layer, expert);
  for (std::size_t tensor = 0; tensor < tensors(layer).size(); ++tensor) {
    running.update(payload(layer, tensor, slot));
  }
  return running.digest();
}

std::uint64_t ExpertStore::checksum(LayerId layer, std::span<const std::byte> bundle,
                                    ExpertId expert) noexcept {
  return checksum_of(bundle, checksum_seed(layer, expert));
}

Checksum ExpertStore::start_checksum(LayerId layer, ExpertId expert) {
  return Checksum(checksum_seed(layer, expert));
}

}  // namespace trimtab
