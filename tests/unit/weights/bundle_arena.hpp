// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/expert_store.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace trimtab::test {

/// The six tensors of a W8A8 expert. One slot of w13 spans several swap blocks and ends inside one.
struct TensorShape {
  const char* name;
  ElementType type;
  std::size_t slot_bytes;
};
inline const std::vector<TensorShape> w8a8_bundle{
    {"w13", ElementType::int8, 9004},       {"w13_scale", ElementType::float32, 96},
    {"w13_offset", ElementType::int32, 96}, {"w2", ElementType::int8, 4096},
    {"w2_scale", ElementType::float32, 52}, {"w2_offset", ElementType::int32, 52}};

/// Memory of one rank's weights, laid out with guard bytes around every tensor and between its slots.
class BundleArena {
 public:
  static constexpr std::byte guard{0xa5};
  static constexpr std::size_t guard_bytes = 64;
  static constexpr std::size_t gap_bytes = 12;

  BundleArena(std::int32_t num_layers, IdRange<SlotId> slots) : slots_(slots) {
    std::size_t size = guard_bytes;
    for (LayerId layer : ids<LayerId>(num_layers)) {
      auto& specs = layers_.emplace_back();
      for (const TensorShape& shape : w8a8_bundle) {
        TensorSpec spec;
        spec.name = shape.name;
        spec.type = shape.type;
        spec.num_slots = static_cast<std::int32_t>(slots.size());
        spec.slot_bytes = shape.slot_bytes;
        spec.stride_bytes = shape.slot_bytes + gap_bytes;
        offsets_.push_back(size);
        size += slots.size() * spec.stride_bytes + guard_bytes;
        specs.push_back(spec);
      }
      static_cast<void>(layer);
    }
    memory_.assign(size, guard);
    for (std::size_t i = 0; i < offsets_.size(); ++i) spec(i).base = memory_.data() + offsets_[i];
  }

  [[nodiscard]] const std::vector<TensorSpec>& tensors(LayerId layer) const { return layers_[layer.index()]; }

  /// The expert's bundle as it lies in staging: every word tells layer, expert, tensor and position, so no
  /// two words of a test are equal.
  static std::vector<std::byte> bundle_of(LayerId layer, ExpertId expert) {
    std::vector<std::byte> bundle;
    for (std::size_t tensor = 0; tensor < w8a8_bundle.size(); ++tensor) {
      for (std::size_t word = 0; word < w8a8_bundle[tensor].slot_bytes / 4; ++word) {
        const auto value =
            static_cast<std::uint32_t>(layer.index() << 28 | expert.index() << 20 | tensor << 16 | word);
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        bundle.insert(bundle.end(), bytes, bytes + sizeof value);
      }
    }
    return bundle;
  }

  /// Writes the expert into a slot directly, past the store.
  void fill(LayerId layer, SlotId slot, ExpertId expert) {
    const auto bundle = bundle_of(layer, expert);
    std::size_t at = 0;
    for (const TensorSpec& spec : tensors(layer)) {
      std::memcpy(address(spec, slot), bundle.data() + at, spec.slot_bytes);
      at += spec.slot_bytes;
    }
  }

  [[nodiscard]] bool holds(LayerId layer, SlotId slot, ExpertId expert) const {
    const auto bundle = bundle_of(layer, expert);
    std::size_t at = 0;
    for (const TensorSpec& spec : tensors(layer)) {
      if (std::memcmp(address(spec, slot), bundle.data() + at, spec.slot_bytes) != 0) return false;
      at += spec.slot_bytes;
    }
    return true;
  }

  [[nodiscard]] std::byte* address(const TensorSpec& spec, SlotId slot) const {
    return spec.base + (slot.index() - slots_.first().index()) * spec.stride_bytes;
  }

  /// Bytes that belong to no slot and are no longer what they were.
  [[nodiscard]] std::size_t num_damaged_guards() const {
    std::vector<std::byte> rest = memory_;
    for (const auto& layer : layers_) {
      for (const TensorSpec& spec : layer) {
        for (SlotId slot : slots_) {
          std::fill_n(rest.begin() + (address(spec, slot) - memory_.data()), spec.slot_bytes, guard);
        }
      }
    }
    return rest.size() - static_cast<std::size_t>(std::count(rest.begin(), rest.end(), guard));
  }

 private:
  TensorSpec& spec(std::size_t i) { return layers_[i / w8a8_bundle.size()][i % w8a8_bundle.size()]; }

  IdRange<SlotId> slots_;
  std::vector<std::vector<TensorSpec>> layers_;
  std::vector<std::size_t> offsets_;
  std::vector<std::byte> memory_;
};

}  // namespace trimtab::test
