// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/tensor_spec.hpp>

#include <span>
#include <vector>

namespace trimtab {

/// Bytes of a tensor's slots, rows after rows without gaps, as the two functions below want them; 0 for a
/// tensor whose slots are addressable. NZ storage is whole, so there the fused shared experts count too.
[[nodiscard]] std::size_t nd_copy_bytes(const TensorSpec& tensor) noexcept;

/// Copies the tensor from its storage into `nd`.
void read_storage(const TensorSpec& tensor, std::span<std::byte> nd) noexcept;

/// Copies it back. Rows with a pitch: those slots only that are marked in `changed`. NZ: everything, in
/// place.
void write_storage(const TensorSpec& tensor, std::span<const std::byte> nd,
                   const std::vector<bool>& changed) noexcept;

}  // namespace trimtab
