// SPDX-License-Identifier: Apache-2.0
#include "nd_copy.hpp"

#include <trimtab/weights/fractal_nz.hpp>

#include <cstring>

namespace trimtab {
namespace {

/// Slots in the copy.
std::size_t num_copied(const TensorSpec& tensor) noexcept {
  const auto slots = static_cast<std::size_t>(tensor.num_slots);
  if (tensor.layout.format == Format::nd) return slots;
  return slots + static_cast<std::size_t>(tensor.num_fused);
}

NzShape shape_of(const TensorSpec& tensor) noexcept { return {tensor.layout.rows, row_bytes(tensor)}; }

std::span<std::byte> nz_slot(const TensorSpec& tensor, std::size_t slot) noexcept {
  return {tensor.base + slot * tensor.stride_bytes, tensor.stride_bytes};
}

template <class CopyRow>
void for_each_row(const TensorSpec& tensor, std::size_t slot, const CopyRow& copy_row) {
  for (std::size_t row = 0; row < tensor.layout.rows; ++row) {
    copy_row(tensor.base + slot * tensor.stride_bytes + row * row_pitch(tensor),
             slot * tensor.slot_bytes + row * row_bytes(tensor));
  }
}

void read_rows(const TensorSpec& tensor, std::span<std::byte> nd) noexcept {
  for (std::size_t slot = 0; slot < num_copied(tensor); ++slot) {
    for_each_row(tensor, slot, [&](const std::byte* live, std::size_t offset) {
      std::memcpy(nd.data() + offset, live, row_bytes(tensor));
    });
  }
}

void write_rows(const TensorSpec& tensor, std::span<const std::byte> nd, std::size_t slot) noexcept {
  for_each_row(tensor, slot, [&](std::byte* live, std::size_t offset) {
    std::memcpy(live, nd.data() + offset, row_bytes(tensor));
  });
}

}  // namespace

std::size_t nd_copy_bytes(const TensorSpec& tensor) noexcept {
  return is_addressable(tensor) ? 0 : num_copied(tensor) * tensor.slot_bytes;
}

void read_storage(const TensorSpec& tensor, std::span<std::byte> nd) noexcept {
  if (tensor.layout.format == Format::nd) return read_rows(tensor, nd);
  if (tensor.storage != nullptr) return tensor.storage->read(nd);
  for (std::size_t slot = 0; slot < num_copied(tensor); ++slot) {
    nz_to_nd(shape_of(tensor), nz_slot(tensor, slot),
             nd.subspan(slot * tensor.slot_bytes, tensor.slot_bytes));
  }
}

void write_storage(const TensorSpec& tensor, std::span<const std::byte> nd,
                   const std::vector<bool>& changed) noexcept {
  if (tensor.layout.format == Format::nd) {
    for (std::size_t slot = 0; slot < changed.size(); ++slot) {
      if (changed[slot]) write_rows(tensor, nd, slot);
    }
    return;
  }
  if (tensor.storage != nullptr) return tensor.storage->write(nd);
  for (std::size_t slot = 0; slot < num_copied(tensor); ++slot) {
    nd_to_nz(shape_of(tensor), nd.subspan(slot * tensor.slot_bytes, tensor.slot_bytes),
             nz_slot(tensor, slot));
  }
}

}  // namespace trimtab
