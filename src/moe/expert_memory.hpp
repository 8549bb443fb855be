// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "moe/config.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// The weights of one rank: a place for one bundle per local slot and layer, page-aligned, at addresses that
/// never change. The executor reads here what the engine writes through the ExpertStore.
///
/// Threads: whoever writes a slot must know that no one reads it.
class ExpertMemory {
 public:
  /// All zero; `slots` is the rank's range of physical slots.
  ExpertMemory(const ModelConfig& config, IdRange<SlotId> slots);

  [[nodiscard]] IdRange<SlotId> slots() const noexcept { return slots_; }

  /// Generates what `placement` names for the local slots; vacant ones keep their bytes.
  /// @return `invalid_argument` when the placement is of another shape.
  Status load(const Placement& placement);

  /// Registers the six tensors of every layer. This object must outlive the store's use.
  Status register_in(ExpertStore& store);

  /// The weights in `slot`, one of `slots()`.
  [[nodiscard]] Bundle bundle(LayerId layer, SlotId slot) noexcept;
  [[nodiscard]] ConstBundle bundle(LayerId layer, SlotId slot) const noexcept;

 private:
  static constexpr std::size_t num_tensors = 6;
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  struct Tensor {
    std::size_t slot_bytes = 0;
    std::size_t stride_bytes = 0;  ///< A multiple of the cache line.
    std::size_t offset = 0;        ///< In a layer.
  };

  [[nodiscard]] std::byte* tensor_base(LayerId layer, std::size_t tensor) const noexcept;
  template <class T>
  [[nodiscard]] std::span<T> tensor_slot(LayerId layer, std::size_t tensor, SlotId slot) const noexcept;
  [[nodiscard]] Bundle view(LayerId layer, SlotId slot) const noexcept;

  ModelConfig config_;
  IdRange<SlotId> slots_;
  std::array<Tensor, num_tensors> tensors_;
  std::size_t layer_bytes_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace trimtab::moe
