// SPDX-License-Identifier: Apache-2.0
#include "tensor_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

template <class... Args>
tl::unexpected<Error> refuse(LayerId layer, const TensorSpec& tensor, fmt::format_string<Args...> format,
                             Args&&... args) {
  return failure(Errc::invalid_argument, fmt::format("layer {}, tensor {}: {}", layer.value(), tensor.name,
                                                     fmt::format(format, std::forward<Args>(args)...)));
}

std::uintptr_t address_of(const TensorSpec& tensor) noexcept {
  return reinterpret_cast<std::uintptr_t>(tensor.base);
}

/// Whether the last byte can be addressed, without overflowing on the way.
bool fits_address_space(const TensorSpec& tensor, std::size_t num_slots) noexcept {
  const std::uintptr_t room = std::numeric_limits<std::uintptr_t>::max() - address_of(tensor);
  if (num_slots == 0) return true;
  return tensor.slot_bytes <= room && (num_slots - 1) <= (room - tensor.slot_bytes) / tensor.stride_bytes;
}

Status check_alignment(LayerId layer, const TensorSpec& tensor) {
  const std::size_t element = size_of(tensor.type);
  if (tensor.slot_bytes % element != 0) {
    return refuse(layer, tensor, "slot of {} bytes is no multiple of the element size {}", tensor.slot_bytes,
                  element);
  }
  if (address_of(tensor) % element != 0) {
    return refuse(layer, tensor, "base {:#x} is not aligned to the element size {}", address_of(tensor),
                  element);
  }
  if (tensor.stride_bytes % element != 0) {
    return refuse(layer, tensor, "stride of {} bytes is not aligned to the element size {}",
                  tensor.stride_bytes, element);
  }
  return {};
}

}  // namespace

Status check_tensor(LayerId layer, const TensorSpec& tensor, std::size_t num_slots) {
  if (tensor.base == nullptr) return refuse(layer, tensor, "null base");
  if (tensor.slot_bytes == 0) return refuse(layer, tensor, "empty slot of 0 bytes");
  if (tensor.stride_bytes < tensor.slot_bytes) {
    return refuse(layer, tensor, "stride of {} bytes < slot of {} bytes: slots share memory",
                  tensor.stride_bytes, tensor.slot_bytes);
  }
  if (Status aligned = check_alignment(layer, tensor); !aligned) return aligned;
  if (std::cmp_not_equal(tensor.num_slots, num_slots)) {
    return refuse(layer, tensor, "{} slots, but the store has {}", tensor.num_slots, num_slots);
  }
  if (!fits_address_space(tensor, num_slots)) {
    return refuse(layer, tensor, "{} slots of stride {} bytes from {:#x} leave the address space", num_slots,
                  tensor.stride_bytes, address_of(tensor));
  }
  return {};
}

Extent extent_of(LayerId layer, const TensorSpec& tensor) noexcept {
  const std::uintptr_t begin = address_of(tensor);
  if (tensor.num_slots == 0) return {begin, begin, layer, &tensor};
  const auto last = static_cast<std::size_t>(tensor.num_slots) - 1;
  return {begin, begin + last * tensor.stride_bytes + tensor.slot_bytes, layer, &tensor};
}

Status check_apart(std::vector<Extent> extents) {
  for (std::size_t i = 0; i < extents.size(); ++i) extents[i].order = i;
  std::erase_if(extents, [](const Extent& extent) { return extent.begin == extent.end; });
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  // Neighbours are enough: of sorted extents, the first two that share a byte are adjacent.
  const auto left = std::adjacent_find(extents.begin(), extents.end(),
                                       [](const Extent& a, const Extent& b) { return b.begin < a.end; });
  if (left == extents.end()) return {};
  const auto [older, newer] = std::minmax(*left, *std::next(left),
                                          [](const Extent& a, const Extent& b) { return a.order < b.order; });
  return refuse(newer.layer, *newer.tensor,
                "memory {:#x}..{:#x} overlaps tensor {} of layer {} at {:#x}..{:#x}", newer.begin, newer.end,
                older.tensor->name, older.layer.value(), older.begin, older.end);
}

}  // namespace trimtab
