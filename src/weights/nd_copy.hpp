// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/fractal_nz.hpp>
#include <trimtab/weights/tensor_spec.hpp>

#include <span>

namespace trimtab {

/// Slots in the ND copy of a tensor. A whole storage is read and written with its fused shared experts.
[[nodiscard]] std::size_t num_copied(const TensorSpec& tensor) noexcept;

/// Bytes of that copy, rows after rows without gaps; 0 for a tensor whose slots are addressable.
[[nodiscard]] std::size_t nd_copy_bytes(const TensorSpec& tensor) noexcept;

/// Copies some rows of `slot` from storage into `nd`, the slot's part of the copy. Precondition of this and
/// the next: neither addressable nor a whole storage.
void read_rows(const TensorSpec& tensor, std::size_t slot, RowRange rows, std::span<std::byte> nd) noexcept;

/// Copies all rows back, in place: NZ padding becomes zero, a gap behind a row is not touched.
void write_slot(const TensorSpec& tensor, std::size_t slot, std::span<const std::byte> nd) noexcept;

}  // namespace trimtab
