// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

/// What a tensor spans, from its first slot's first byte to its last slot's last.
struct Extent {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  ///< One past the last byte; equals `begin` when there are no slots.
  LayerId layer;
  const TensorSpec* tensor = nullptr;  ///< Borrowed.
  std::size_t order = 0;               ///< Of registration; filled by `check_apart`.
};

/// Whether one tensor is sound by itself.
[[nodiscard]] Status check_tensor(LayerId layer, const TensorSpec& tensor, std::size_t num_slots);

/// Precondition: `check_tensor` passed.
[[nodiscard]] Extent extent_of(LayerId layer, const TensorSpec& tensor) noexcept;

/// Whether no two of the extents, given in order of registration, share a byte. Blames the later one.
[[nodiscard]] Status check_apart(std::vector<Extent> extents);

}  // namespace trimtab
