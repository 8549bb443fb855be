// SPDX-License-Identifier: Apache-2.0
#include "verify/layout_weights.hpp"

#include "verify/expert_values.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::verify {
namespace {

constexpr std::size_t guard_bytes = 32;
constexpr std::byte guard{0xa5};
/// Fused shared experts look like experts that no placement names.
constexpr std::int32_t first_shared_expert = 1000;

struct Shape {
  const char* name;
  ElementType type;
  std::size_t rows;
  std::size_t columns;
};

/// No side is a multiple of a block, but for one.
const std::vector<Shape> bundles[]{
    {{"w13", ElementType::int8, 20, 50},
     {"w13_scale", ElementType::float32, 1, 20},
     {"w2", ElementType::bfloat16, 17, 24},
     {"w2_scale", ElementType::float32, 1, 17},
     {"w2_offset", ElementType::int32, 1, 17}},
    {{"w13_packed", ElementType::uint8, 33, 31},
     {"w13_blockscale", ElementType::uint8, 33, 2},
     {"w2_packed", ElementType::uint8, 33, 31},  // The shape of w13_packed: two workspaces of one size.
     {"global_scale", ElementType::float32, 1, 1}},
    {{"w2", ElementType::float32, 5, 9}, {"w13", ElementType::float16, 16, 32}},
};

Arrangement resolve(Arrangement arrangement, LayerId layer, std::size_t tensor) {
  if (arrangement != Arrangement::mixed) return arrangement;
  return layer.index() % 2 == 1 ? Arrangement::dense : all_arrangements[(layer.index() + tensor) % 5];
}

}  // namespace

LayoutWeights::LayoutWeights(std::int32_t num_layers, IdRange<SlotId> slots, Arrangement arrangement,
                             std::int32_t num_fused)
    : num_fused_(num_fused), layers_(static_cast<std::size_t>(num_layers)), store_(num_layers, slots) {
  for (LayerId layer : ids<LayerId>(num_layers)) {
    for (const Shape& shape : bundles[layer.index() % std::size(bundles)]) {
      add(layer, shape.name, shape.type, {shape.rows, shape.columns, size_of(shape.type)},
          resolve(arrangement, layer, layers_[layer.index()].size()));
    }
    std::vector<TensorSpec> specs;
    for (const auto& tensor : layers_[layer.index()]) specs.push_back(tensor->spec);
    const Status registered = store_.register_layer(layer, specs);
    TRIMTAB_ASSERT(registered.has_value());
  }
}

void LayoutWeights::add(LayerId layer, const std::string& name, ElementType type, Matrix matrix,
                        Arrangement arrangement) {
  auto tensor = std::make_unique<Tensor>();
  tensor->matrix = matrix;
  TensorSpec& spec = tensor->spec;
  spec.name = name;
  spec.type = type;
  spec.num_slots = static_cast<std::int32_t>(store_.slots().size());
  spec.num_fused = num_fused_;
  spec.slot_bytes = spec.stride_bytes = matrix.size_bytes();
  spec.layout.rows = matrix.rows;
  const bool wants_nz = arrangement == Arrangement::nz || arrangement == Arrangement::poisoning_nz;
  const bool is_nz = wants_nz && matrix.rows > 1;
  if (arrangement == Arrangement::padded_slots) spec.stride_bytes += 12;
  if (arrangement == Arrangement::padded_rows) {
    spec.layout.row_pitch_bytes = matrix.columns * matrix.element_bytes + 8;
    spec.stride_bytes = matrix.rows * spec.layout.row_pitch_bytes + 4;
  }
  if (is_nz) {
    spec.layout.format = Format::fractal_nz;
    spec.stride_bytes = NzTranscription{matrix}.size_bytes();
  }
  const std::size_t size = static_cast<std::size_t>(spec.num_slots + num_fused_) * spec.stride_bytes;
  tensor->memory.assign(size + 2 * guard_bytes, guard);
  spec.base = tensor->memory.data() + guard_bytes;
  if (is_nz && arrangement == Arrangement::poisoning_nz) {
    tensor->storage = std::make_unique<PoisoningStorage>(std::span(spec.base, size), matrix);
    spec.storage = tensor->storage.get();
  }
  layers_[layer.index()].push_back(std::move(tensor));
}

/// What the tensor's memory must be, written down index by index.
std::vector<std::byte> LayoutWeights::image(LayerId layer, std::size_t tensor,
                                            const Placement& placement) const {
  const Tensor& t = *layers_[layer.index()][tensor];
  std::vector<std::byte> image(t.memory.size(), guard);
  const std::size_t columns = t.matrix.columns * t.matrix.element_bytes;
  const std::size_t pitch = t.spec.layout.row_pitch_bytes == 0 ? columns : t.spec.layout.row_pitch_bytes;
  const auto num_slots = static_cast<std::size_t>(t.spec.num_slots);
  for (std::size_t s = 0; s < num_slots + static_cast<std::size_t>(num_fused_); ++s) {
    const SlotId slot{store_.slots().first().value() + static_cast<std::int32_t>(s)};
    const ExpertId expert = s < num_slots
                                ? placement.expert_at(layer, slot)
                                : ExpertId{first_shared_expert + static_cast<std::int32_t>(s - num_slots)};
    const std::size_t at = guard_bytes + s * t.spec.stride_bytes;
    const auto put = [&](std::size_t position, std::size_t offset) {
      const bool is_vacant = expert == no_expert;
      image[at + offset] = is_vacant ? t.memory[at + offset] : expert_byte(layer, expert, tensor, position);
    };
    if (t.spec.layout.format == Format::fractal_nz) {
      std::fill_n(image.begin() + static_cast<std::ptrdiff_t>(at), t.spec.stride_bytes, std::byte{0});
      NzTranscription{t.matrix}.for_each_byte(put);
    } else {
      for (std::size_t i = 0; i < t.spec.slot_bytes; ++i) put(i, i / columns * pitch + i % columns);
    }
  }
  return image;
}

void LayoutWeights::fill(const Placement& placement) {
  for (LayerId layer : ids<LayerId>(store_.num_layers())) {
    auto& tensors = layers_[layer.index()];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::ranges::copy(image(layer, i, placement), tensors[i]->memory.begin());
      if (tensors[i]->storage) tensors[i]->storage->accept();
    }
  }
}

std::string LayoutWeights::find_difference(const Placement& placement) const {
  for (LayerId layer : ids<LayerId>(store_.num_layers())) {
    const auto& tensors = layers_[layer.index()];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& t = *tensors[i];
      const std::string place = fmt::format("layer {}, tensor {}", layer.value(), t.spec.name);
      if (t.storage && !t.storage->settle()) return place + ": a slice was written";
      const std::vector<std::byte> expected = image(layer, i, placement);
      const auto [at, unused] = std::ranges::mismatch(t.memory, expected);
      if (at == t.memory.end()) continue;
      const auto offset = at - t.memory.begin() - static_cast<std::ptrdiff_t>(guard_bytes);
      return fmt::format("{}: byte {}, slot {} by stride", place, offset,
                         offset / static_cast<std::ptrdiff_t>(t.spec.stride_bytes));
    }
  }
  return "";
}

int LayoutWeights::num_whole_writes() const {
  int sum = 0;
  for (const auto& layer : layers_) {
    for (const auto& tensor : layer) sum += tensor->storage ? tensor->storage->num_writes() : 0;
  }
  return sum;
}

void LayoutWeights::lose_writes(bool loses) {
  for (const auto& layer : layers_) {
    for (const auto& tensor : layer) {
      if (tensor->storage) tensor->storage->lose_writes(loses);
    }
  }
}

}  // namespace trimtab::verify
