// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/weights/fractal_nz.hpp>

#include <algorithm>
#include <cstring>

namespace trimtab {
namespace {

/// Measured best of many: a row of a tile is whole cache lines of the ND side, a column of one whole lines of
/// the NZ side, and all of them fit the first-level cache even when rows are a power of two apart.
constexpr std::size_t tile_rows = 4 * nz_block_rows;
constexpr std::size_t tile_row_bytes = 4 * nz_block_row_bytes;

/// A corner of the matrix, by its first byte on both sides.
struct Tile {
  std::size_t in_nd;
  std::size_t in_nz;
  std::size_t rows;
  std::size_t row_bytes;
};

template <class Visit>
void for_each_tile(NzShape shape, RowRange rows, const Visit& visit) {
  const std::size_t end = rows.first + rows.count;
  for (std::size_t top = rows.first; top < end; top += tile_rows) {
    for (std::size_t left = 0; left < shape.row_bytes; left += tile_row_bytes) {
      visit(Tile{top * shape.row_bytes + left, nz_offset(shape, top, left), std::min(tile_rows, end - top),
                 std::min(tile_row_bytes, shape.row_bytes - left)});
    }
  }
}

/// Calls `copy(offset in ND, offset in NZ, size)` for each piece of a row that lies in one block. Sizes are
/// constants but for the last block column: a copy of them is then a few instructions.
template <class Copy>
void copy_tile(NzShape shape, const Tile& tile, const Copy& copy) {
  const std::size_t next_column = nz_padded_rows(shape) * nz_block_row_bytes;
  for (std::size_t row = 0; row < tile.rows; ++row) {
    const std::size_t in_nd = tile.in_nd + row * shape.row_bytes;
    const std::size_t in_nz = tile.in_nz + row * nz_block_row_bytes;
    if (tile.row_bytes == tile_row_bytes) {
      for (std::size_t column = 0; column < tile_row_bytes / nz_block_row_bytes; ++column) {
        copy(in_nd + column * nz_block_row_bytes, in_nz + column * next_column, nz_block_row_bytes);
      }
      continue;
    }
    for (std::size_t at = 0; at < tile.row_bytes; at += nz_block_row_bytes) {
      copy(in_nd + at, in_nz + at / nz_block_row_bytes * next_column,
           std::min(nz_block_row_bytes, tile.row_bytes - at));
    }
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
  for_each_tile(shape, {0, shape.rows}, [&](const Tile& tile) {
    copy_tile(shape, tile, [&](std::size_t in_nd, std::size_t in_nz, std::size_t size) {
      std::memcpy(nz.data() + in_nz, nd.data() + in_nd, size);
    });
  });
  zero_padding(shape, nz.data());
}

void nz_to_nd(NzShape shape, std::span<const std::byte> nz, std::span<std::byte> nd) noexcept {
  nz_rows_to_nd(shape, {0, shape.rows}, nz, nd);
}

void nz_rows_to_nd(NzShape shape, RowRange rows, std::span<const std::byte> nz,
                   std::span<std::byte> nd) noexcept {
  TRIMTAB_ASSERT(nd.size() == shape.rows * shape.row_bytes && nz.size() == nz_bytes(shape));
  TRIMTAB_ASSERT(rows.first <= shape.rows && rows.count <= shape.rows - rows.first);
  for_each_tile(shape, rows, [&](const Tile& tile) {
    copy_tile(shape, tile, [&](std::size_t in_nd, std::size_t in_nz, std::size_t size) {
      std::memcpy(nd.data() + in_nd, nz.data() + in_nz, size);
    });
  });
}

}  // namespace trimtab
