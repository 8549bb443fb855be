// SPDX-License-Identifier: Apache-2.0
#include "verify/layout_weights.hpp"

#include "verify/expert_values.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trimtab::verify {
namespace {

constexpr std::size_t guard_bytes = 32;
constexpr std::byte guard{0xa5};
/// Fused shared experts look like experts that no placement names.
constexpr std::int32_t first_shared_expert = 60000;

/// No side is a multiple of a block, but for one.
const BundleShape bundles[]{
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

std::vector<BundleShape> usual_layers(std::int32_t num_layers) {
  std::vector<BundleShape> layers;
  for (LayerId layer : ids<LayerId>(num_layers))
    layers.push_back(bundles[layer.index() % std::size(bundles)]);
  return layers;
}

Arrangement resolve(Arrangement arrangement, LayerId layer, std::size_t tensor) {
  if (arrangement != Arrangement::mixed) return arrangement;
  return layer.index() % 2 == 1 ? Arrangement::dense : all_arrangements[(layer.index() + tensor) % 5];
}

TensorSpec make_spec(const TensorShape& shape, Arrangement arrangement) {
  TensorSpec spec;
  spec.name = shape.name;
  spec.type = shape.type;
  spec.slot_bytes = spec.stride_bytes = shape.size_bytes();
  spec.layout.rows = shape.rows;
  const bool wants_nz = arrangement == Arrangement::nz || arrangement == Arrangement::poisoning_nz;
  if (wants_nz && shape.rows > 1) {
    spec.layout.format = Format::fractal_nz;
    spec.stride_bytes = NzTranscription{{shape.rows, shape.columns, size_of(shape.type)}}.size_bytes();
  }
  if (arrangement == Arrangement::padded_slots) spec.stride_bytes += 12;
  if (arrangement == Arrangement::padded_rows) {
    spec.layout.row_pitch_bytes = shape.columns * size_of(shape.type) + 8;
    spec.stride_bytes = shape.rows * spec.layout.row_pitch_bytes + 4;
  }
  return spec;
}

/// Where each byte of a payload lies in a slot's storage, written down index by index.
std::vector<std::uint32_t> offsets_of(const TensorSpec& spec, const Matrix& matrix) {
  std::vector<std::uint32_t> offsets(spec.slot_bytes);
  const auto put = [&](std::size_t position, std::size_t offset) {
    offsets[position] = static_cast<std::uint32_t>(offset);
  };
  if (spec.layout.format == Format::fractal_nz) {
    NzTranscription{matrix}.for_each_byte(put);
    return offsets;
  }
  const std::size_t columns = matrix.columns * matrix.element_bytes;
  const std::size_t pitch = spec.layout.row_pitch_bytes == 0 ? columns : spec.layout.row_pitch_bytes;
  for (std::size_t i = 0; i < spec.slot_bytes; ++i) put(i, i / columns * pitch + i % columns);
  return offsets;
}

std::vector<std::uint32_t> others_than(const std::vector<std::uint32_t>& offsets, std::size_t size) {
  std::vector<bool> is_payload(size);
  for (std::uint32_t offset : offsets) is_payload[offset] = true;
  std::vector<std::uint32_t> others;
  for (std::uint32_t offset = 0; offset < size; ++offset) {
    if (!is_payload[offset]) others.push_back(offset);
  }
  return others;
}

}  // namespace

std::string_view to_string(Arrangement arrangement) noexcept {
  constexpr std::string_view names[]{"dense", "padded slots", "padded rows", "NZ", "NZ of a device", "mixed"};
  return names[static_cast<std::size_t>(arrangement)];
}

std::string_view to_string(Region region) noexcept {
  constexpr std::string_view names[]{"payload", "gap", "fused shared expert", "guard", "slice"};
  return names[static_cast<std::size_t>(region)];
}

std::string to_string(const Difference& difference) {
  std::string text = fmt::format("layer {}, tensor {}", difference.layer.value(), difference.tensor);
  if (difference.region == Region::slice) return text + ": a slice was written";
  if (difference.slot != no_slot) {
    text += fmt::format(", slot {} (expert {})", difference.slot.value(), difference.expert.value());
  }
  if (difference.region != Region::payload) text += fmt::format(", {}", to_string(difference.region));
  return text + fmt::format(", byte {}: {:#04x}, not {:#04x}", difference.offset,
                            std::to_integer<int>(difference.found),
                            std::to_integer<int>(difference.expected));
}

LayoutWeights::LayoutWeights(const Options& options, IdRange<SlotId> slots)
    : num_fused_(options.num_fused),
      layers_(options.layers.size()),
      store_(static_cast<std::int32_t>(options.layers.size()), slots) {
  for (LayerId layer : ids<LayerId>(options.layers.size())) {
    for (const TensorShape& shape : options.layers[layer.index()])
      add(layer, shape, resolve(options.arrangement, layer, layers_[layer.index()].size()));
    register_layer(layer, options.forgets_scales);
  }
}

LayoutWeights::LayoutWeights(std::int32_t num_layers, IdRange<SlotId> slots, Arrangement arrangement,
                             std::int32_t num_fused)
    : LayoutWeights(
          Options{.layers = usual_layers(num_layers), .arrangement = arrangement, .num_fused = num_fused},
          slots) {}

void LayoutWeights::add(LayerId layer, const TensorShape& shape, Arrangement arrangement) {
  auto tensor = std::make_unique<Tensor>();
  tensor->matrix = {shape.rows, shape.columns, size_of(shape.type)};
  TensorSpec& spec = tensor->spec = make_spec(shape, arrangement);
  spec.num_slots = static_cast<std::int32_t>(store_.slots().size());
  spec.num_fused = num_fused_;
  tensor->offsets = offsets_of(spec, tensor->matrix);
  tensor->gaps = others_than(tensor->offsets, spec.stride_bytes);
  tensor->gap_value = spec.layout.format == Format::fractal_nz ? std::byte{0} : guard;
  const std::size_t num_places =
      static_cast<std::size_t>(spec.num_slots) + static_cast<std::size_t>(num_fused_);
  const std::size_t size = num_places * spec.stride_bytes;
  tensor->memory.assign(size + 2 * guard_bytes, guard);
  tensor->image.resize(size);
  tensor->imaged.assign(num_places, no_expert);
  spec.base = tensor->memory.data() + guard_bytes;
  if (spec.layout.format == Format::fractal_nz && arrangement == Arrangement::poisoning_nz) {
    tensor->storage = std::make_unique<PoisoningStorage>(std::span(spec.base, size), tensor->matrix);
    spec.storage = tensor->storage.get();
  }
  layers_[layer.index()].push_back(std::move(tensor));
}

void LayoutWeights::register_layer(LayerId layer, bool forgets_scales) {
  std::vector<TensorSpec> specs;
  for (const auto& tensor : layers_[layer.index()]) {
    if (!forgets_scales || !tensor->spec.name.ends_with("scale")) specs.push_back(tensor->spec);
  }
  const Status registered = store_.register_layer(layer, specs);
  TRIMTAB_ASSERT(registered.has_value());
}

std::vector<LayoutWeights::Place> LayoutWeights::places_of(LayerId layer, std::size_t tensor,
                                                           const SlotContents& contents) const {
  std::vector<Place> places;
  for (SlotId slot : store_.slots())
    places.push_back({layer, tensor, places.size(), contents.at(layer, slot)});
  for (std::int32_t i = 0; i < num_fused_; ++i)
    places.push_back({layer, tensor, places.size(), ExpertId{first_shared_expert + i}});
  return places;
}

void LayoutWeights::fill(const SlotContents& contents) {
  for (LayerId layer : ids<LayerId>(store_.num_layers())) {
    auto& tensors = layers_[layer.index()];
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (const Place& place : places_of(layer, t, contents)) {
        Tensor& tensor = *tensors[t];
        write_place(place, tensor.spec.base + place.index * tensor.spec.stride_bytes);
      }
      if (tensors[t]->storage) tensors[t]->storage->accept();
    }
  }
}

/// The values of a vacant slot are left alone.
void LayoutWeights::write_place(const Place& place, std::byte* at) const {
  const Tensor& tensor = tensor_of(place);
  for (std::uint32_t gap : tensor.gaps) at[gap] = tensor.gap_value;
  if (place.expert == no_expert) return;
  std::vector<std::byte> payload(tensor.spec.slot_bytes);
  fill_expert(place.layer, place.expert, place.tensor, payload);
  for (std::size_t i = 0; i < payload.size(); ++i) at[tensor.offsets[i]] = payload[i];
}

std::optional<Difference> LayoutWeights::first_difference(const SlotContents& contents) const {
  for (LayerId layer : ids<LayerId>(store_.num_layers())) {
    const auto& tensors = layers_[layer.index()];
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const bool is_whole = !tensors[t]->storage || tensors[t]->storage->settle();
      if (!is_whole)
        return Difference{.region = Region::slice, .layer = layer, .tensor = tensors[t]->spec.name};
      for (const Place& place : places_of(layer, t, contents)) {
        if (auto found = place_difference(place)) return found;
      }
      if (auto found = guard_difference(layer, *tensors[t])) return found;
    }
  }
  return std::nullopt;
}

std::optional<Difference> LayoutWeights::slot_difference(LayerId layer, SlotId slot, ExpertId expert) const {
  const std::size_t index = slot.index() - store_.slots().first().index();
  for (std::size_t t = 0; t < layers_[layer.index()].size(); ++t) {
    if (auto found = place_difference({layer, t, index, expert})) return found;
  }
  return std::nullopt;
}

bool LayoutWeights::is_as_imaged(const Place& place) const {
  const Tensor& tensor = tensor_of(place);
  const std::size_t at = place.index * tensor.spec.stride_bytes;
  if (tensor.imaged[place.index] != place.expert) {
    write_place(place, tensor.image.data() + at);
    tensor.imaged[place.index] = place.expert;
  }
  return std::memcmp(tensor.spec.base + at, tensor.image.data() + at, tensor.spec.stride_bytes) == 0;
}

std::optional<Difference> LayoutWeights::place_difference(const Place& place) const {
  if (place.expert != no_expert && is_as_imaged(place)) return std::nullopt;
  return search_place(place);
}

std::optional<Difference> LayoutWeights::search_place(const Place& place) const {
  const Tensor& tensor = tensor_of(place);
  const std::byte* const at = tensor.spec.base + place.index * tensor.spec.stride_bytes;
  for (std::size_t first = 0; first < tensor.offsets.size() && place.expert != no_expert; first += 8) {
    std::uint64_t word = expert_word(place.layer, place.expert, place.tensor, first / 8);
    for (std::size_t i = first; i < std::min(first + 8, tensor.offsets.size()); ++i, word >>= 8) {
      if (at[tensor.offsets[i]] != static_cast<std::byte>(word))
        return difference_at(place, Region::payload, i);
    }
  }
  for (std::uint32_t gap : tensor.gaps) {
    if (at[gap] != tensor.gap_value) return difference_at(place, Region::gap, gap);
  }
  return std::nullopt;
}

Difference LayoutWeights::difference_at(const Place& place, Region region, std::size_t offset) const {
  const Tensor& tensor = tensor_of(place);
  const bool is_payload = region == Region::payload;
  const std::byte* const at = tensor.spec.base + place.index * tensor.spec.stride_bytes;
  Difference found{.region = region, .layer = place.layer, .tensor = tensor.spec.name, .offset = offset};
  found.expected =
      is_payload ? expert_byte(place.layer, place.expert, place.tensor, offset) : tensor.gap_value;
  found.found = at[is_payload ? tensor.offsets[offset] : offset];
  if (place.index < store_.slots().size()) {
    found.slot = SlotId{store_.slots().first().value() + static_cast<std::int32_t>(place.index)};
    found.expert = place.expert;
  } else if (is_payload) {
    found.region = Region::fused;
  }
  return found;
}

std::optional<Difference> LayoutWeights::guard_difference(LayerId layer, const Tensor& tensor) const {
  for (std::size_t i = 0; i < 2 * guard_bytes; ++i) {
    const std::size_t at = i < guard_bytes ? i : tensor.memory.size() - 2 * guard_bytes + i;
    if (tensor.memory[at] == guard) continue;
    return Difference{.region = Region::guard,
                      .layer = layer,
                      .tensor = tensor.spec.name,
                      .offset = i,
                      .expected = guard,
                      .found = tensor.memory[at]};
  }
  return std::nullopt;
}

std::string LayoutWeights::find_difference(const Placement& placement) const {
  const auto found = first_difference(SlotContents(placement, store_.slots()));
  return found ? to_string(*found) : "";
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
