// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/weights/fractal_nz.hpp>

#include <algorithm>
#include <cstring>

namespace trimtab {
namespace {

/// Block columns are taken two at a time, that is one cache line of each of 16 rows. One by one, rows that
/// are a power of two apart would push each other out of the first-level cache between the halves of a line.
constexpr std::size_t tile_bytes = 2 * nz_block_row_bytes;

/// Calls `copy(offset in rows, offset in NZ, size)` for each piece of a row that lies in one block.
template <class Copy>
void for_each_piece(NzShape shape, const Copy& copy) {
  for (std::size_t top = 0; top < shape.rows; top += nz_block_rows) {
    const std::size_t bottom = std::min(shape.rows, top + nz_block_rows);
    for (std::size_t left = 0; left < shape.row_bytes; left += tile_bytes) {
      const std::size_t right = std::min(shape.row_bytes, left + tile_bytes);
      for (std::size_t row = top; row < bottom; ++row) {
        for (std::size_t at = left; at < right; at += nz_block_row_bytes) {
          copy(row * shape.row_bytes + at, nz_offset(shape, row, at),
               std::min(nz_block_row_bytes, right - at));
        }
      }
    }
  }
}

/// A constant size is a few instructions, a variable one is a call.
void copy_piece(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (size == nz_block_row_bytes) {
    std::memcpy(to, from, nz_block_row_bytes);
  } else {
    std::memcpy(to, from, size);
  }
}

/// Zeroes what no element of the matrix covers: rows below the last, and the end of the last block column.
void zero_padding(NzShape shape, std::byte* nz) noexcept {
  const std::size_t padded = nz_padded_rows(shape);
  for (std::size_t column = 0; column < nz_block_columns(shape); ++column) {
    std::byte* const below = nz + (column * padded + shape.rows) * nz_block_row_bytes;
    std::memset(below, 0, (padded - shape.rows) * nz_block_row_bytes);
  }
  const std::size_t covered = shape.row_bytes % nz_block_row_bytes;
  if (covered == 0) return;
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::memset(nz + nz_offset(shape, row, shape.row_bytes), 0, nz_block_row_bytes - covered);
  }
}

}  // namespace

void nd_to_nz(NzShape shape, std::span<const std::byte> nd, std::span<std::byte> nz) noexcept {
  TRIMTAB_ASSERT(nd.size() == shape.rows * shape.row_bytes && nz.size() == nz_bytes(shape));
  for_each_piece(shape, [&](std::size_t in_nd, std::size_t in_nz, std::size_t size) {
    copy_piece(nz.data() + in_nz, nd.data() + in_nd, size);
  });
  zero_padding(shape, nz.data());
}

void nz_to_nd(NzShape shape, std::span<const std::byte> nz, std::span<std::byte> nd) noexcept {
  TRIMTAB_ASSERT(nd.size() == shape.rows * shape.row_bytes && nz.size() == nz_bytes(shape));
  for_each_piece(shape, [&](std::size_t in_nd, std::size_t in_nz, std::size_t size) {
    copy_piece(nd.data() + in_nd, nz.data() + in_nz, size);
  });
}

}  // namespace trimtab
