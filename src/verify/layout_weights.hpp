// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/poisoning_storage.hpp"

#include <trimtab/core/placement.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <memory>
#include <string>
#include <vector>

namespace trimtab::verify {

/// How a test's tensors lie. Matrices only are put into NZ, as engines do; vectors stay dense there.
enum class Arrangement {
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

/// One rank's slots in a given arrangement, in memory with guard bytes around every tensor and in every gap,
/// and shared experts fused behind the slots. Tensors differ in number, shape and type from layer to layer.
class LayoutWeights {
 public:
  LayoutWeights(std::int32_t num_layers, IdRange<SlotId> slots, Arrangement arrangement,
                std::int32_t num_fused = 2);

  [[nodiscard]] ExpertStore& store() noexcept { return store_; }
  /// Writes every slot's expert, past the store.
  void fill(const Placement& placement);
  /// First deviation of any byte from `placement`: slots, fused experts, gaps, padding and guards; or a slice
  /// written to NZ; or "". A vacant slot's payload may be anything.
  [[nodiscard]] std::string find_difference(const Placement& placement) const;
  /// Times that a PoisoningStorage was written.
  [[nodiscard]] int num_whole_writes() const;
  /// Whether every PoisoningStorage shall ignore what is written to it.
  void lose_writes(bool loses);

 private:
  struct Tensor {
    TensorSpec spec;
    Matrix matrix;
    std::vector<std::byte> memory;
    std::unique_ptr<PoisoningStorage> storage;
  };

  void add(LayerId layer, const std::string& name, ElementType type, Matrix matrix, Arrangement arrangement);
  [[nodiscard]] std::vector<std::byte> image(LayerId layer, std::size_t tensor,
                                             const Placement& placement) const;

  std::int32_t num_fused_;
  std::vector<std::vector<std::unique_ptr<Tensor>>> layers_;
  ExpertStore store_;
};

}  // namespace trimtab::verify
