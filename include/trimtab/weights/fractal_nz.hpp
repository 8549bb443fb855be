// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace trimtab {

/// Rows of one block of fractal NZ.
inline constexpr std::size_t nz_block_rows = 16;
/// Bytes of one row of a block: 32 int8, 16 two-byte or 8 four-byte columns.
inline constexpr std::size_t nz_block_row_bytes = 32;

/// One matrix as it lies in rows. The element size does not matter: elements divide the 32 bytes.
struct NzShape {
  std::size_t rows = 0;
  std::size_t row_bytes = 0;
};

/// Rows of a matrix, `count` of them from `first` on.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

[[nodiscard]] constexpr std::size_t nz_block_columns(NzShape shape) noexcept {
  return (shape.row_bytes + nz_block_row_bytes - 1) / nz_block_row_bytes;
}

[[nodiscard]] constexpr std::size_t nz_padded_rows(NzShape shape) noexcept {
  return (shape.rows + nz_block_rows - 1) / nz_block_rows * nz_block_rows;
}

/// Bytes of the matrix in fractal NZ, [block columns][block rows][16][32 bytes], edges padded.
[[nodiscard]] constexpr std::size_t nz_bytes(NzShape shape) noexcept {
  return nz_block_columns(shape) * nz_padded_rows(shape) * nz_block_row_bytes;
}

/// Where byte `byte_of_row` of `row` lies in the matrix's NZ storage.
[[nodiscard]] constexpr std::size_t nz_offset(NzShape shape, std::size_t row,
                                              std::size_t byte_of_row) noexcept {
  return (byte_of_row / nz_block_row_bytes * nz_padded_rows(shape) + row) * nz_block_row_bytes +
         byte_of_row % nz_block_row_bytes;
}

/// Converts one matrix of `rows * row_bytes` bytes to its `nz_bytes`; padding becomes zero. The ranges must
/// not overlap.
void nd_to_nz(NzShape shape, std::span<const std::byte> nd, std::span<std::byte> nz) noexcept;

/// The way back; padding is not looked at.
void nz_to_nd(NzShape shape, std::span<const std::byte> nz, std::span<std::byte> nd) noexcept;

/// The same for some rows of the matrix: those of `nd` are written, others not touched. Ranges that begin
/// with a block are converted fastest.
void nz_rows_to_nd(NzShape shape, RowRange rows, std::span<const std::byte> nz,
                   std::span<std::byte> nd) noexcept;

}  // namespace trimtab
