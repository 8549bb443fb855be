// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/poisoning_storage.hpp"
#include "verify/slot_contents.hpp"

#include <trimtab/core/placement.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab::verify {

/// How tensors lie. Matrices only are put into NZ, as engines do; vectors stay dense there.
enum class Arrangement : std::uint8_t {
  dense,
  padded_slots,
  padded_rows,
  nz,            ///< In host memory, converted by the library.
  poisoning_nz,  ///< In a PoisoningStorage.
  mixed,         ///< Each tensor another; odd layers dense.
};
inline constexpr Arrangement all_arrangements[]{Arrangement::dense,        Arrangement::padded_slots,
                                                Arrangement::padded_rows,  Arrangement::nz,
                                                Arrangement::poisoning_nz, Arrangement::mixed};

[[nodiscard]] std::string_view to_string(Arrangement arrangement) noexcept;

/// One tensor of a bundle, counted in elements.
struct TensorShape {
  const char* name;
  ElementType type;
  std::size_t rows;
  std::size_t columns;

  [[nodiscard]] std::size_t size_bytes() const { return rows * columns * size_of(type); }
};
using BundleShape = std::vector<TensorShape>;

/// What a byte of a tensor's memory is for.
enum class Region : std::uint8_t {
  payload,  ///< A slot's values.
  gap,      ///< Between slots or rows, or the padding of NZ.
  fused,    ///< A shared expert's values, behind the slots.
  guard,    ///< Before and behind the tensor.
  slice,    ///< NZ that was not written whole.
};

[[nodiscard]] std::string_view to_string(Region region) noexcept;

/// A byte that is not what it must be.
struct Difference {
  Region region = Region::payload;
  LayerId layer;
  std::string tensor;
  SlotId slot = no_slot;        ///< `no_slot` outside the slots.
  ExpertId expert = no_expert;  ///< Which must be there.
  std::size_t offset = 0;       ///< In the payload, or in the slot's storage for a gap, or in the guard.
  std::byte expected{};
  std::byte found{};
};

/// "layer 1, tensor w2, slot 7 (expert 3), byte 12: 0x1f, not 0x40".
[[nodiscard]] std::string to_string(const Difference& difference);

/// One rank's slots in a given arrangement, in memory with guard bytes around every tensor and in every gap,
/// and shared experts fused behind the slots. Not thread-safe.
class LayoutWeights {
 public:
  struct Options {
    std::span<const BundleShape> layers;  ///< The bundle of each layer.
    Arrangement arrangement = Arrangement::dense;
    std::int32_t num_fused = 2;
    bool forgets_scales = false;  ///< Tensors named "…scale" are in memory but not registered.
  };

  LayoutWeights(const Options& options, IdRange<SlotId> slots);
  /// Tensors that differ in number, shape and type from layer to layer.
  LayoutWeights(std::int32_t num_layers, IdRange<SlotId> slots, Arrangement arrangement,
                std::int32_t num_fused = 2);

  [[nodiscard]] ExpertStore& store() noexcept { return store_; }

  /// Writes every slot's expert, past the store, and all that lies between.
  void fill(const SlotContents& contents);
  void fill(const Placement& placement) { fill(SlotContents(placement, store_.slots())); }

  /// First deviation of any byte from `contents`: slots, fused experts, gaps, padding and guards; or a slice
  /// written to NZ.
  [[nodiscard]] std::optional<Difference> first_difference(const SlotContents& contents) const;
  /// The same for one slot, as its reader sees it.
  [[nodiscard]] std::optional<Difference> slot_difference(LayerId layer, SlotId slot, ExpertId expert) const;
  /// The first as text, or "".
  [[nodiscard]] std::string find_difference(const Placement& placement) const;

  /// Times that a PoisoningStorage was written.
  [[nodiscard]] int num_whole_writes() const;
  /// Whether every PoisoningStorage shall ignore what is written to it.
  void lose_writes(bool loses);

 private:
  struct Tensor {
    TensorSpec spec;
    Matrix matrix;
    std::vector<std::uint32_t> offsets;  ///< Of the payload's bytes, in a slot's storage.
    std::vector<std::uint32_t> gaps;     ///< Offsets of the other bytes.
    std::byte gap_value{};
    std::vector<std::byte> memory;
    std::unique_ptr<PoisoningStorage> storage;
    /// What each place was last compared with, and whose bytes that is: most comparisons are repeated.
    mutable std::vector<std::byte> image;
    mutable std::vector<ExpertId> imaged;
  };
  /// A slot, or a fused expert behind them, of one tensor.
  struct Place {
    LayerId layer;
    std::size_t tensor;
    std::size_t index;  ///< From the first slot on.
    ExpertId expert;
  };

  void add(LayerId layer, const TensorShape& shape, Arrangement arrangement);
  void register_layer(LayerId layer, bool forgets_scales);
  void write_place(const Place& place, std::byte* at) const;
  [[nodiscard]] Tensor& tensor_of(const Place& place) { return *layers_[place.layer.index()][place.tensor]; }
  [[nodiscard]] const Tensor& tensor_of(const Place& place) const {
    return *layers_[place.layer.index()][place.tensor];
  }
  [[nodiscard]] std::vector<Place> places_of(LayerId layer, std::size_t tensor,
                                             const SlotContents& contents) const;
  [[nodiscard]] bool is_as_imaged(const Place& place) const;
  [[nodiscard]] std::optional<Difference> place_difference(const Place& place) const;
  [[nodiscard]] std::optional<Difference> search_place(const Place& place) const;
  [[nodiscard]] std::optional<Difference> guard_difference(LayerId layer, const Tensor& tensor) const;
  [[nodiscard]] Difference difference_at(const Place& place, Region region, std::size_t offset) const;

  std::int32_t num_fused_;
  std::vector<std::vector<std::unique_ptr<Tensor>>> layers_;
  ExpertStore store_;
};

}  // namespace trimtab::verify
