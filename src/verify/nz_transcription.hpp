// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trimtab::verify {

/// One matrix, counted in elements.
struct Matrix {
  std::size_t rows;
  std::size_t columns;
  std::size_t element_bytes;

  [[nodiscard]] std::size_t size_bytes() const { return rows * columns * element_bytes; }
};

/// Fractal NZ written down from its definition, one index after the other: a matrix [rows][columns] becomes
/// [column block][row block][row in block][column in block]. Shares no code with the library.
struct NzTranscription {
  Matrix matrix;

  [[nodiscard]] std::size_t columns_per_block() const { return 32 / matrix.element_bytes; }
  [[nodiscard]] std::size_t num_column_blocks() const {
    return matrix.columns / columns_per_block() + (matrix.columns % columns_per_block() == 0 ? 0 : 1);
  }
  [[nodiscard]] std::size_t num_row_blocks() const {
    return matrix.rows / 16 + (matrix.rows % 16 == 0 ? 0 : 1);
  }
  [[nodiscard]] std::size_t size_bytes() const { return num_column_blocks() * num_row_blocks() * 16 * 32; }

  [[nodiscard]] std::size_t offset(std::size_t row, std::size_t column) const {
    const std::size_t column_block = column / columns_per_block();
    const std::size_t row_block = row / 16;
    std::size_t index = column_block;
    index = index * num_row_blocks() + row_block;
    index = index * 16 + row % 16;
    index = index * columns_per_block() + column % columns_per_block();
    return index * matrix.element_bytes;
  }

  /// Calls `visit(byte in rows, byte in NZ)` for every byte of the matrix.
  template <class Visit>
  void for_each_byte(const Visit& visit) const {
    for (std::size_t row = 0; row < matrix.rows; ++row) {
      for (std::size_t column = 0; column < matrix.columns; ++column) {
        for (std::size_t byte = 0; byte < matrix.element_bytes; ++byte) {
          visit((row * matrix.columns + column) * matrix.element_bytes + byte, offset(row, column) + byte);
        }
      }
    }
  }

  [[nodiscard]] std::vector<std::byte> to_nz(std::span<const std::byte> rows) const {
    std::vector<std::byte> nz(size_bytes());
    for_each_byte([&](std::size_t in_rows, std::size_t in_nz) { nz[in_nz] = rows[in_rows]; });
    return nz;
  }

  [[nodiscard]] std::vector<std::byte> to_rows(std::span<const std::byte> nz) const {
    std::vector<std::byte> rows(matrix.size_bytes());
    for_each_byte([&](std::size_t in_rows, std::size_t in_nz) { rows[in_rows] = nz[in_nz]; });
    return rows;
  }
};

}  // namespace trimtab::verify
