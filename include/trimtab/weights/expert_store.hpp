// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/checksum.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

class LayerCopy;
class Workspaces;

/// What a tensor of the bundle is on every rank, wherever and however it lies there.
struct BundleTensor {
  std::string name;
  ElementType type = ElementType::int8;
  std::size_t slot_bytes = 0;
};

/// The weights of this rank's slots, seen as bundles: all tensors that make one expert, moved whole or not at
/// all (M5), in the order of registration, rows without gaps or padding, whatever their layout.
///
/// Bundles of a layer that `needs_workspace` are read and exchanged between `begin_layer`, or `open_layer`
/// and `convert_slot`, and `end_layer` only; for other layers these do nothing, so that a caller need not
/// know. Borrows the memory; owns the description and the workspaces. Addresses and format tags never change
/// (M4). Threads: const calls may run together; calls that write a slot need that no other call touches the
/// same slot. `begin_layer`, `open_layer` and `end_layer` need that no other call runs; `convert_slot` that
/// no other call but a const one for slots that are converted.
class ExpertStore {
 public:
  /// `slots` is the rank's range of physical slots, the same in every layer.
  ExpertStore(std::int32_t num_layers, IdRange<SlotId> slots);
  ~ExpertStore();
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;

  /// Declares what every rank registers for `layer`, before it is registered here. Optional.
  /// @return `invalid_argument`, and nothing declared, for a layer out of range or registered already.
  Status expect_bundle(LayerId layer, std::vector<BundleTensor> bundle);

  /// Registers all tensors of one layer's bundle, in the order in which a bundle is laid out in staging.
  /// Allocates the workspaces that their layouts need.
  /// @return `invalid_argument` with layer and tensor name, and nothing registered, for: no tensors; a layer
  ///         out of range or registered already; a name twice; tensors other than `expect_bundle` declared; a
  ///         null base; an empty slot; stride 0 or below what a slot takes (broadcast or aliased slots); rows
  ///         that overlap; a slot or row that is no multiple of the element size; a base, stride or pitch
  ///         that is no multiple of it either; an NZ stride that is not `nz_bytes`; a storage that is
  ///         elsewhere or tagged otherwise; a slot count that is not the store's; sizes that overflow; memory
  ///         that leaves the address space or overlaps another tensor, of this call or registered before.
  ///         Overlap is judged by whole extents, first slot to last fused expert: a tensor inside the gaps of
  ///         another (interleaved slots) is refused as well.
  Status register_layer(LayerId layer, std::span<const TensorSpec> tensors);

  [[nodiscard]] std::int32_t num_layers() const noexcept { return static_cast<std::int32_t>(layers_.size()); }
  [[nodiscard]] IdRange<SlotId> slots() const noexcept { return slots_; }
  /// The registered tensors of `layer`; empty when not registered.
  [[nodiscard]] std::span<const TensorSpec> tensors(LayerId layer) const noexcept;
  /// Bytes of one bundle of `layer`, without gaps; 0 when not registered.
  [[nodiscard]] std::size_t bundle_bytes(LayerId layer) const noexcept;

  /// Of names, types and payload sizes of all bundles, in order: equal on ranks whose bundles fit together,
  /// in whatever layouts they lie. To be agreed on with a program (M6).
  [[nodiscard]] std::uint64_t bundle_hash() const noexcept;
  /// Of addresses, format tags and shapes of all tensors, as their storages tell them now: it never changes
  /// once all layers are registered (M4).
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;

  /// Bytes of workspaces, beside staging and the weights; 0 when every slot is addressable. Grows only by
  /// `register_layer`.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// Whether `layer` has a tensor whose slots are not addressable.
  [[nodiscard]] bool needs_workspace(LayerId layer) const noexcept;
  /// Keeps the workspaces for one user, who may send from them. False while another has them.
  [[nodiscard]] bool try_acquire_workspaces() noexcept;
  void release_workspaces() noexcept;

  /// Gives the workspaces to `layer`, with no slot in them yet. Precondition: no other such layer has them.
  void open_layer(LayerId layer) noexcept;
  /// Copies what `slot`'s bundle lacks in the workspaces there, at most `max_bytes` of it by one call, or
  /// else one row of a matrix. A `WholeStorage` is read for all slots at once, as a call's only work. The
  /// storage stays as it is and in service. Precondition: the layer is open.
  /// @return whether the bundle can be used now.
  bool convert_slot(LayerId layer, SlotId slot, std::size_t max_bytes) noexcept;
  /// Whether the bundle can be used as it is: `convert_slot` has nothing left to do.
  [[nodiscard]] bool is_converted(LayerId layer, SlotId slot) const noexcept;
  /// `open_layer` and the conversion of all slots in one go.
  void begin_layer(LayerId layer) noexcept;
  /// Writes back in place what was exchanged since the layer was opened; nothing when nothing was. Slots that
  /// were not exchanged are written only in a `WholeStorage`. Precondition: if something was, nobody reads
  /// the layer's storage.
  void end_layer(LayerId layer) noexcept;
  /// Payload copied so far from storages to workspaces and back; of a `WholeStorage` all of it, each time.
  [[nodiscard]] std::uint64_t bytes_converted() const noexcept;

  /// Memory of tensor `tensor` of `slot`, a physical slot of this rank. Precondition: it is addressable.
  [[nodiscard]] std::span<std::byte> tensor_slot(LayerId layer, std::size_t tensor,
                                                 SlotId slot) const noexcept;
  /// The payload of tensor `tensor` of `slot`: in its storage where it is addressable, else in the workspace,
  /// valid until `end_layer`.
  [[nodiscard]] std::span<const std::byte> tensor_payload(LayerId layer, std::size_t tensor,
                                                          SlotId slot) const noexcept;

  /// Copies a slot's bundle into `bundle` (bundle_bytes long), tensor after tensor.
  void read_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) const noexcept;
  /// Swaps a slot's bundle with `bundle`: afterwards the slot holds what `bundle` held, and the reverse. In a
  /// workspace it takes effect at `end_layer`.
  void exchange_bundle(LayerId layer, SlotId slot, std::span<std::byte> bundle) noexcept;

  /// Checksum of a slot's bundle, bound to the logical expert it is meant to be: the same bytes under another
  /// expert or layer give another value.
  [[nodiscard]] std::uint64_t checksum(LayerId layer, SlotId slot, ExpertId expert) const noexcept;
  /// The same for a bundle in staging.
  [[nodiscard]] static std::uint64_t checksum(LayerId layer, std::span<const std::byte> bundle,
                                              ExpertId expert) noexcept;
  /// A running checksum that ends as the two above once it was given a bundle's bytes, tensor after tensor.
  [[nodiscard]] static Checksum start_checksum(LayerId layer, ExpertId expert);

 private:
  struct Layer {
    std::vector<BundleTensor> expected;  ///< Empty: whatever is registered.
    std::vector<TensorSpec> tensors;
    std::vector<std::size_t> workspaces;  ///< By tensor.
    std::size_t bundle_bytes = 0;
    bool needs_workspace = false;
  };

  [[nodiscard]] std::size_t local(SlotId slot) const noexcept {
    return slot.index() - slots_.first().index();
  }
  [[nodiscard]] Status check_layer(LayerId layer, std::string_view first_tensor) const;
  [[nodiscard]] std::span<std::byte> payload(LayerId layer, std::size_t tensor, SlotId slot) const noexcept;

  IdRange<SlotId> slots_;
  std::vector<Layer> layers_;
  std::unique_ptr<Workspaces> workspaces_;
  std::unique_ptr<LayerCopy> copy_;  ///< Of the layer that is open.
  std::optional<LayerId> open_;
  bool is_acquired_ = false;
};

}  // namespace trimtab
