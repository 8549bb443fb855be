// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/expert_store.hpp>
#include <trimtab/weights/fractal_nz.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "moe/config.hpp"
#include "moe/expert_buffer.hpp"
#include "moe/weight_source.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// How the matrices of experts lie. Vectors (scales, offsets) are dense in both, as in engines.
enum class WeightLayout : std::uint8_t {
  dense,
  nz,  ///< Fractal NZ, see trimtab/weights/fractal_nz.hpp.
};

/// Which tensors of a bundle the engine is told of.
enum class RegisteredTensors : std::uint8_t {
  all,
  without_scales,  ///< Wrong on purpose: scales stay behind when the rest moves (docs/design/0015).
};

/// The weights of one rank: a place for one bundle per local slot and layer, page-aligned, at addresses that
/// never change. The executor reads here what the engine writes through the ExpertStore.
///
/// Threads: whoever writes a slot must know that no one reads it.
class ExpertMemory {
 public:
  /// All zero; `slots` is the rank's range of physical slots.
  ExpertMemory(const ModelConfig& config, IdRange<SlotId> slots, WeightLayout layout = WeightLayout::dense);

  [[nodiscard]] IdRange<SlotId> slots() const noexcept { return slots_; }
  [[nodiscard]] WeightLayout layout() const noexcept { return layout_; }

  /// Fills the local slots with what `placement` names; vacant ones keep their bytes. Generated weights
  /// without a source.
  /// @return `invalid_argument` when the placement is of another shape.
  Status load(const Placement& placement);
  Status load(const Placement& placement, const WeightSource& source);

  /// Registers the tensors of every layer. This object must outlive the store's use.
  Status register_in(ExpertStore& store, RegisteredTensors which = RegisteredTensors::all);

  /// The weights in `slot`, one of `slots()`, where they lie. Precondition: the layout is dense.
  [[nodiscard]] Bundle bundle(LayerId layer, SlotId slot) noexcept;
  [[nodiscard]] ConstBundle bundle(LayerId layer, SlotId slot) const noexcept;
  /// The same in any layout, rows without gaps, as a kernel takes them: where they lie, but for matrices in
  /// NZ, which are converted into `scratch`. Valid until either is written again.
  [[nodiscard]] ConstBundle read(LayerId layer, SlotId slot, ExpertBuffer& scratch) const noexcept;

 private:
  static constexpr std::size_t num_tensors = 6;
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  struct Tensor {
    NzShape matrix;  ///< Of one slot; a vector is one row.
    Layout layout;
    std::size_t slot_bytes = 0;    ///< Payload.
    std::size_t stride_bytes = 0;  ///< A multiple of the cache line.
    std::size_t offset = 0;        ///< In a layer.
  };

  [[nodiscard]] std::byte* tensor_base(LayerId layer, std::size_t tensor) const noexcept;
  /// What a slot takes in storage, padding included.
  [[nodiscard]] std::span<std::byte> stored(LayerId layer, std::size_t tensor, SlotId slot) const noexcept;
  template <class T>
  [[nodiscard]] std::span<T> tensor_slot(LayerId layer, std::size_t tensor, SlotId slot) const noexcept;
  [[nodiscard]] Bundle view(LayerId layer, SlotId slot) const noexcept;
  void fill(LayerId layer, SlotId slot, ExpertId expert, const WeightSource& source,
            ExpertBuffer& scratch) noexcept;
  [[nodiscard]] TensorSpec spec_of(LayerId layer, std::size_t tensor) const;

  ModelConfig config_;
  IdRange<SlotId> slots_;
  WeightLayout layout_;
  std::array<Tensor, num_tensors> tensors_;
  std::size_t layer_bytes_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace trimtab::moe
