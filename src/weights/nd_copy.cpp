// SPDX-License-Identifier: Apache-2.0
#include "nd_copy.hpp"

#include <cstring>

namespace trimtab {
namespace {

NzShape shape_of(const TensorSpec& tensor) noexcept { return {tensor.layout.rows, row_bytes(tensor)}; }

std::span<std::byte> nz_slot(const TensorSpec& tensor, std::size_t slot) noexcept {
  return {tensor.base + slot * tensor.stride_bytes, tensor.stride_bytes};
}

/// Calls `copy_row(row in storage, offset in the slot's rows)`.
template <class CopyRow>
void for_each_row(const TensorSpec& tensor, std::size_t slot, RowRange rows, const CopyRow& copy_row) {
  for (std::size_t row = rows.first; row < rows.first + rows.count; ++row) {
    copy_row(tensor.base + slot * tensor.stride_bytes + row * row_pitch(tensor), row * row_bytes(tensor));
  }
}

}  // namespace

std::size_t num_copied(const TensorSpec& tensor) noexcept {
  const std::int32_t num_fused = tensor.storage == nullptr ? 0 : tensor.num_fused;
  return static_cast<std::size_t>(tensor.num_slots) + static_cast<std::size_t>(num_fused);
}

std::size_t nd_copy_bytes(const TensorSpec& tensor) noexcept {
  return is_addressable(tensor) ? 0 : num_copied(tensor) * tensor.slot_bytes;
}

void read_rows(const TensorSpec& tensor, std::size_t slot, RowRange rows, std::span<std::byte> nd) noexcept {
  if (tensor.layout.format == Format::fractal_nz)
    return nz_rows_to_nd(shape_of(tensor), rows, nz_slot(tensor, slot), nd);
  for_each_row(tensor, slot, rows, [&](const std::byte* live, std::size_t offset) {
    std::memcpy(nd.data() + offset, live, row_bytes(tensor));
  });
}

void write_slot(const TensorSpec& tensor, std::size_t slot, std::span<const std::byte> nd) noexcept {
  if (tensor.layout.format == Format::fractal_nz)
    return nd_to_nz(shape_of(tensor), nd, nz_slot(tensor, slot));
  for_each_row(tensor, slot, {0, tensor.layout.rows}, [&](std::byte* live, std::size_t offset) {
    std::memcpy(live, nd.data() + offset, row_bytes(tensor));
  });
}

}  // namespace trimtab
