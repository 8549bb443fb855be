// SPDX-License-Identifier: Apache-2.0
#include "tensor_checks.hpp"

#include <trimtab/weights/fractal_nz.hpp>

#include <cstdint>
#include <limits>

namespace trimtab {
namespace {

constexpr std::size_t size_limit = std::numeric_limits<std::size_t>::max();

std::uintptr_t address_of(const TensorSpec& tensor) noexcept {
  return reinterpret_cast<std::uintptr_t>(tensor.base);
}

bool is_nz(const TensorSpec& tensor) noexcept { return tensor.layout.format == Format::fractal_nz; }

/// Whether all sizes of one slot are numbers that exist: padded to whole blocks, or with the row pitch.
bool fits_size(const TensorSpec& tensor) noexcept {
  const std::size_t rows = tensor.layout.rows;
  if (!is_nz(tensor)) return row_pitch(tensor) <= size_limit / rows;
  if (rows > size_limit - nz_block_rows || row_bytes(tensor) > size_limit - nz_block_row_bytes) return false;
  const std::size_t padded_row = nz_block_columns({rows, row_bytes(tensor)}) * nz_block_row_bytes;
  return padded_row <= size_limit / nz_padded_rows({rows, 1});
}

/// Whether the last byte can be addressed, without overflowing on the way.
bool fits_address_space(const TensorSpec& tensor, std::size_t count) noexcept {
  const std::uintptr_t room = std::numeric_limits<std::uintptr_t>::max() - address_of(tensor);
  if (count == 0) return true;
  const std::size_t slot = slot_extent(tensor);
  return slot <= room && (count - 1) <= (room - slot) / tensor.stride_bytes;
}

Status check_rows(LayerId layer, const TensorSpec& tensor) {
  const Layout& layout = tensor.layout;
  if (layout.rows == 0 || tensor.slot_bytes % layout.rows != 0) {
    return refuse(layer, tensor.name, "slot of {} bytes is no multiple of {} rows", tensor.slot_bytes,
                  layout.rows);
  }
  if (is_nz(tensor) && layout.row_pitch_bytes != 0) {
    return refuse(layer, tensor.name, "row pitch of {} bytes, but fractal NZ has none (0)",
                  layout.row_pitch_bytes);
  }
  if (!is_nz(tensor) && row_pitch(tensor) < row_bytes(tensor)) {
    return refuse(layer, tensor.name, "row pitch of {} bytes < row of {} bytes: rows share memory",
                  layout.row_pitch_bytes, row_bytes(tensor));
  }
  if (!fits_size(tensor)) {
    return refuse(layer, tensor.name, "{} rows of {} bytes overflow the size of a slot, at most {}",
                  layout.rows, is_nz(tensor) ? row_bytes(tensor) : row_pitch(tensor), size_limit);
  }
  return {};
}

Status check_stride(LayerId layer, const TensorSpec& tensor) {
  const std::size_t slot = slot_extent(tensor);
  if (tensor.stride_bytes < slot) {
    return refuse(layer, tensor.name, "stride of {} bytes < slot of {} bytes: slots share memory",
                  tensor.stride_bytes, slot);
  }
  if (is_nz(tensor) && tensor.stride_bytes != slot) {
    return refuse(layer, tensor.name,
                  "stride of {} bytes, but slots of {} rows of {} bytes in fractal NZ are {} apart",
                  tensor.stride_bytes, tensor.layout.rows, row_bytes(tensor), slot);
  }
  return {};
}

Status check_alignment(LayerId layer, const TensorSpec& tensor) {
  const std::size_t element = size_of(tensor.type);
  if (tensor.slot_bytes % element != 0) {
    return refuse(layer, tensor.name, "slot of {} bytes is no multiple of the element size {}",
                  tensor.slot_bytes, element);
  }
  if (row_bytes(tensor) % element != 0) {
    return refuse(layer, tensor.name, "row of {} bytes is no multiple of the element size {}",
                  row_bytes(tensor), element);
  }
  if (address_of(tensor) % element != 0) {
    return refuse(layer, tensor.name, "base {:#x} is not aligned to the element size {}", address_of(tensor),
                  element);
  }
  if (tensor.stride_bytes % element != 0) {
    return refuse(layer, tensor.name, "stride of {} bytes is not aligned to the element size {}",
                  tensor.stride_bytes, element);
  }
  if (tensor.layout.row_pitch_bytes % element != 0) {
    return refuse(layer, tensor.name, "row pitch of {} bytes is not aligned to the element size {}",
                  tensor.layout.row_pitch_bytes, element);
  }
  return {};
}

Status check_count(LayerId layer, const TensorSpec& tensor, std::size_t num_slots) {
  if (std::cmp_not_equal(tensor.num_slots, num_slots)) {
    return refuse(layer, tensor.name, "{} slots, but the store has {}", tensor.num_slots, num_slots);
  }
  if (tensor.num_fused < 0) {
    return refuse(layer, tensor.name, "{} fused shared experts < 0", tensor.num_fused);
  }
  const std::size_t count = num_slots + static_cast<std::size_t>(tensor.num_fused);
  if (!fits_address_space(tensor, count)) {
    return refuse(layer, tensor.name, "{} slots of stride {} bytes from {:#x} leave the address space", count,
                  tensor.stride_bytes, address_of(tensor));
  }
  return {};
}

Status check_storage(LayerId layer, const TensorSpec& tensor) {
  if (tensor.storage == nullptr) return {};
  if (!is_nz(tensor)) return refuse(layer, tensor.name, "a whole storage in format ND (2), wanted NZ (29)");
  const StorageIdentity now = tensor.storage->identity();
  if (now == StorageIdentity{tensor.base, tensor.layout.format}) return {};
  return refuse(layer, tensor.name, "its storage is at {:#x} in format {}, registered is {:#x} in format {}",
                reinterpret_cast<std::uintptr_t>(now.base), static_cast<int>(now.format), address_of(tensor),
                static_cast<int>(tensor.layout.format));
}

}  // namespace

Status check_tensor(LayerId layer, const TensorSpec& tensor, std::size_t num_slots) {
  if (tensor.base == nullptr) return refuse(layer, tensor.name, "null base");
  if (tensor.slot_bytes == 0) return refuse(layer, tensor.name, "empty slot of 0 bytes");
  if (Status rows = check_rows(layer, tensor); !rows) return rows;
  if (Status stride = check_stride(layer, tensor); !stride) return stride;
  if (Status aligned = check_alignment(layer, tensor); !aligned) return aligned;
  if (Status counted = check_count(layer, tensor, num_slots); !counted) return counted;
  return check_storage(layer, tensor);
}

std::size_t slot_extent(const TensorSpec& tensor) noexcept {
  if (is_nz(tensor)) return nz_bytes({tensor.layout.rows, row_bytes(tensor)});
  return (tensor.layout.rows - 1) * row_pitch(tensor) + row_bytes(tensor);
}

}  // namespace trimtab
