// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/whole_storage.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace trimtab {

/// Types of one byte and below (FP8, FP4, INT4) are registered as packed bytes, `uint8`.
enum class ElementType : std::uint8_t { int8, uint8, float16, bfloat16, int32, float32 };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(ElementType type) noexcept;

/// How the logical values of a slot, a matrix of equal rows, lie in storage (docs/design/0012-layouts.md).
///
/// dense: ND, rows touch and slots touch. strided: ND, with a gap behind each slot (`stride_bytes`) or each
/// row (`row_pitch_bytes`). fractal NZ: blocks of 16 rows x 32 bytes, see fractal_nz.hpp.
struct Layout {
  Format format = Format::nd;
  std::size_t rows = 1;             ///< Of one slot; a slot's payload is a multiple of it.
  std::size_t row_pitch_bytes = 0;  ///< ND: distance of two rows, 0 when they touch. NZ: 0.
};

/// One tensor of the expert bundle in one layer, for all slots of this rank: slot i lies at `base + i *
/// stride_bytes`.
struct TensorSpec {
  std::string name;  ///< Unique in the bundle: "w13", "w13_scale", …
  ElementType type = ElementType::int8;
  std::byte* base = nullptr;     ///< Borrowed for the store's lifetime; never changes after registration.
  std::int32_t num_slots = 0;    ///< Must equal the store's.
  std::size_t slot_bytes = 0;    ///< Payload of one slot: its rows without gaps and padding.
  std::size_t stride_bytes = 0;  ///< Distance of two slots, >= what one takes; the gap is never touched.
                                 ///< NZ: exactly what one takes, `nz_bytes`.
  Layout layout = {};
  std::int32_t num_fused = 0;  ///< Shared experts fused behind the slots at the same stride: in the storage,
                               ///< but of no slot. Their bytes never change.
  WholeStorage* storage = nullptr;  ///< NZ in memory that this process cannot convert itself; borrowed. Null:
                                    ///< host memory at `base`.
};

/// Payload of one row.
[[nodiscard]] constexpr std::size_t row_bytes(const TensorSpec& tensor) noexcept {
  return tensor.slot_bytes / tensor.layout.rows;
}

/// Distance of two rows of an ND tensor.
[[nodiscard]] constexpr std::size_t row_pitch(const TensorSpec& tensor) noexcept {
  return tensor.layout.row_pitch_bytes == 0 ? row_bytes(tensor) : tensor.layout.row_pitch_bytes;
}

/// Whether a slot is one range of storage that holds its payload in order, and may be read and written by
/// itself.
[[nodiscard]] constexpr bool is_addressable(const TensorSpec& tensor) noexcept {
  return tensor.layout.format == Format::nd &&
         (tensor.layout.rows == 1 || row_pitch(tensor) == row_bytes(tensor));
}

}  // namespace trimtab
