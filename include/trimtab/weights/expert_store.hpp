// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

enum class ElementType : std::uint8_t { int8, uint8, float16, bfloat16, int32, float32 };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(ElementType type) noexcept;

/// One tensor of the expert bundle in one layer, for all slots of this rank: slot i lies at `base + i *
/// stride_bytes`. Dense layout: a slot is one contiguous range of `slot_bytes`.
struct TensorSpec {
  std::string name;  ///< For messages: "w13", "w13_scale", …
  ElementType type = ElementType::int8;
  std::byte* base = nullptr;     ///< Borrowed for the store's lifetime; never changes after registration.
  std::int32_t num_slots = 0;    ///< Must equal the store's.
  std::size_t slot_bytes = 0;    ///< Payload of one slot.
  std::size_t stride_bytes = 0;  ///< Distance of two slots, >= slot_bytes; the gap is never touched.
};

/// The weights of this rank's slots, seen as bundles: all tensors that make one expert, moved whole or not at
/// all (M5).
///
/// Borrows the memory; owns only the description. Addresses never change (M4).
/// Threads: const calls may run together; calls that write a slot need that no other call touches the same
/// slot.
class ExpertStore {
 public:
  /// `slots` is the rank's range of physical slots, the same in every layer.
  ExpertStore(std::int32_t num_layers, IdRange<SlotId> slots);

  /// Registers all tensors of one layer's bundle, in the order in which a bundle is laid out in staging.
  /// @return `invalid_argument` with layer and tensor name, and nothing registered, for: no tensors; a layer
  ///         out of range or registered already; a null base; an empty slot; stride 0 or < slot_bytes
  ///         (broadcast or aliased slots); a slot size that is no multiple of the element size; a base or
  ///         stride that is no multiple of it either; a slot count that is not the store's; memory that
  ///         leaves the address space or overlaps another tensor, of this call or registered before.
  ///         Overlap is judged by whole extents, first slot to last: a tensor inside the gaps of another
  ///         (interleaved slots) is refused as well.
  Status register_layer(LayerId layer, std::span<const TensorSpec> tensors);

  [[nodiscard]] std::int32_t num_layers() const noexcept { return static_cast<std::int32_t>(layers_.size()); }
  [[nodiscard]] IdRange<SlotId> slots() const noexcept { return slots_; }
  /// The registered tensors of `layer`; empty when not registered.
  [[nodiscard]] std::span<const TensorSpec> tensors(LayerId layer) const noexcept;
  /// Bytes of one bundle of `layer`, without gaps; 0 when not registered.
  [[nodiscard]] std::size_t bundle_bytes(LayerId layer) const noexcept;

  /// Memory of tensor `tensor` of `slot`, a physical slot of this rank.
  [[nodiscard]] std::span<std::byte> tensor_slot(LayerId layer, std::size_t tensor,
                                                 SlotId slot) const noexcept;

  /// Copies a slot's bundle into `bundle` (bundle_bytes long), tensor after tensor.
  void read_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) const noexcept;
  /// Swaps a slot's bundle with `bundle`: afterwards the slot holds what `bundle` held, and the reverse.
  void exchange_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) noexcept;

  /// Checksum of a slot's bundle, bound to the logical expert it is meant to be: the same bytes under another
  /// expert or layer give another value.
  [[nodiscard]] std::uint64_t checksum(LayerId layer, SlotId slot, ExpertId expert) const noexcept;
  /// The same for a bundle in staging.
  [[nodiscard]] static std::uint64_t checksum(LayerId layer, std::span<const std::byte> bundle,
                                              ExpertId expert) noexcept;

 private:
  struct Layer {
    std::vector<TensorSpec> tensors;
    std::size_t bundle_bytes = 0;
  };

  IdRange<SlotId> slots_;
  std::vector<Layer> layers_;
};

}  // namespace trimtab
