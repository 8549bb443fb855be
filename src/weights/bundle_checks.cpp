// SPDX-License-Identifier: Apache-2.0
#include "bundle_checks.hpp"

#include "tensor_checks.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

/// One tensor against its place in the expected bundle.
Status check_same(LayerId layer, const TensorSpec& tensor, const BundleTensor& expected) {
  if (tensor.type != expected.type) {
    return refuse(layer, tensor.name, "element type {}, but the bundle has {}", static_cast<int>(tensor.type),
                  static_cast<int>(expected.type));
  }
  if (tensor.slot_bytes != expected.slot_bytes) {
    return refuse(layer, tensor.name, "slot of {} bytes, but the bundle has {}", tensor.slot_bytes,
                  expected.slot_bytes);
  }
  return {};
}

}  // namespace

Extent extent_of(LayerId layer, const TensorSpec& tensor) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.base);
  const auto count = static_cast<std::size_t>(tensor.num_slots) + static_cast<std::size_t>(tensor.num_fused);
  if (count == 0) return {begin, begin, layer, &tensor};
  return {begin, begin + (count - 1) * tensor.stride_bytes + slot_extent(tensor), layer, &tensor};
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
  return refuse(newer.layer, newer.tensor->name,
                "memory {:#x}..{:#x} overlaps tensor {} of layer {} at {:#x}..{:#x}", newer.begin, newer.end,
                older.tensor->name, older.layer.value(), older.begin, older.end);
}

Status check_tensors(LayerId layer, std::span<const TensorSpec> tensors, std::size_t num_slots) {
  std::size_t bundle_bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    if (Status checked = check_tensor(layer, tensor, num_slots); !checked) return checked;
    if (std::ranges::count(tensors.first(i), tensor.name, &TensorSpec::name) != 0) {
      return refuse(layer, tensor.name, "the name comes twice in the bundle of {} tensors", tensors.size());
    }
    const std::size_t room = std::numeric_limits<std::size_t>::max() - bundle_bytes;
    if (tensor.slot_bytes > room) {
      return refuse(layer, tensor.name, "slot of {} bytes > {} left for the bundle", tensor.slot_bytes, room);
    }
    bundle_bytes += tensor.slot_bytes;
  }
  return {};
}

Status check_expected(LayerId layer, std::span<const TensorSpec> tensors,
                      std::span<const BundleTensor> expected) {
  if (expected.empty()) return {};
  for (const BundleTensor& wanted : expected) {
    if (std::ranges::find(tensors, wanted.name, &TensorSpec::name) == tensors.end()) {
      return refuse(layer, wanted.name, "missing: {} tensors given, the bundle has {}", tensors.size(),
                    expected.size());
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto place = std::ranges::find(expected, tensors[i].name, &BundleTensor::name);
    if (place == expected.end()) {
      return refuse(layer, tensors[i].name, "none of the {} tensors of the bundle", expected.size());
    }
    if (place - expected.begin() != static_cast<std::ptrdiff_t>(i)) {
      return refuse(layer, tensors[i].name, "at place {} of the bundle, but expected at {}", i,
                    place - expected.begin());
    }
    if (Status same = check_same(layer, tensors[i], *place); !same) return same;
  }
  return {};
}

}  // namespace trimtab
