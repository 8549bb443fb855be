// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// What a tensor spans, from its first slot's first byte to the last byte of its last slot or fused expert.
struct Extent {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  ///< One past the last byte; equals `begin` when there are no slots.
  LayerId layer;
  const TensorSpec* tensor = nullptr;  ///< Borrowed.
  std::size_t order = 0;               ///< Of registration; filled by `check_apart`.
};

/// Precondition: `check_tensor` passed.
[[nodiscard]] Extent extent_of(LayerId layer, const TensorSpec& tensor) noexcept;

/// Whether no two of the extents, given in order of registration, share a byte. Blames the later one.
[[nodiscard]] Status check_apart(std::vector<Extent> extents);

/// Whether each tensor is sound, no name comes twice and a bundle's size is a number that exists.
[[nodiscard]] Status check_tensors(LayerId layer, std::span<const TensorSpec> tensors, std::size_t num_slots);

/// Whether the tensors are those expected, in order. `expected` empty: anything is.
[[nodiscard]] Status check_expected(LayerId layer, std::span<const TensorSpec> tensors,
                                    std::span<const BundleTensor> expected);

}  // namespace trimtab
