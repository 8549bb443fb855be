// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>
#include <trimtab/weights/fractal_nz.hpp>

#include "verify/layout_weights.hpp"
#include "verify/nz_transcription.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace trimtab::test {
namespace {

using verify::all_arrangements;
using verify::Arrangement;
using verify::LayoutWeights;
using verify::Matrix;
using verify::NzTranscription;

std::vector<std::byte> draw_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = *rc::gen::arbitrary<std::uint32_t>();
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

Matrix draw_matrix() {
  return {*rc::gen::inRange<std::size_t>(1, 70), *rc::gen::inRange<std::size_t>(1, 140),
          *rc::gen::element<std::size_t>(1, 2, 4)};
}

NzShape shape_of(const Matrix& matrix) { return {matrix.rows, matrix.columns * matrix.element_bytes}; }

RC_GTEST_PROP(FractalNz, IsWhatItsDefinitionSays, ()) {
  const Matrix matrix = draw_matrix();
  const NzTranscription transcription{matrix};
  const std::vector<std::byte> nd = draw_bytes(matrix.size_bytes());
  RC_CLASSIFY(matrix.rows % 16 != 0, "padded rows");
  RC_CLASSIFY(matrix.columns * matrix.element_bytes % 32 != 0, "padded columns");
  RC_ASSERT(nz_bytes(shape_of(matrix)) == transcription.size_bytes());
  std::vector<std::byte> nz(transcription.size_bytes(), std::byte{0xee});
  nd_to_nz(shape_of(matrix), nd, nz);
  RC_ASSERT(nz == transcription.to_nz(nd));  // Zero in every byte of padding, too.
}

RC_GTEST_PROP(FractalNz, ComesBackByteForByte, ()) {
  const Matrix matrix = draw_matrix();
  const std::vector<std::byte> nz = draw_bytes(NzTranscription{matrix}.size_bytes());  // Dirty padding.
  std::vector<std::byte> nd(matrix.size_bytes());
  nz_to_nd(shape_of(matrix), nz, nd);
  RC_ASSERT(nd == NzTranscription{matrix}.to_rows(nz));
  std::vector<std::byte> again(nz.size());
  nd_to_nz(shape_of(matrix), nd, again);
  std::vector<std::byte> back(nd.size());
  nz_to_nd(shape_of(matrix), again, back);
  RC_ASSERT(back == nd);
}

RC_GTEST_PROP(FractalNz, ConvertsTheRowsThatItIsAskedFor, ()) {
  const Matrix matrix = draw_matrix();
  RowRange rows;
  rows.first = *rc::gen::inRange<std::size_t>(0, matrix.rows + 1);
  rows.count = *rc::gen::inRange<std::size_t>(0, matrix.rows - rows.first + 1);
  const std::vector<std::byte> nz = draw_bytes(NzTranscription{matrix}.size_bytes());
  std::vector<std::byte> expected = draw_bytes(matrix.size_bytes());
  std::vector<std::byte> nd = expected;
  const std::size_t row_bytes = shape_of(matrix).row_bytes;
  const std::vector<std::byte> all = NzTranscription{matrix}.to_rows(nz);
  std::copy_n(all.data() + rows.first * row_bytes, rows.count * row_bytes,
              expected.data() + rows.first * row_bytes);
  nz_rows_to_nd(shape_of(matrix), rows, nz, nd);
  RC_ASSERT(nd == expected);
}

RC_GTEST_PROP(FractalNz, PutsEachByteWhereNzOffsetSays, ()) {
  const Matrix matrix = draw_matrix();
  const auto row = *rc::gen::inRange<std::size_t>(0, matrix.rows);
  const auto column = *rc::gen::inRange<std::size_t>(0, matrix.columns);
  RC_ASSERT(nz_offset(shape_of(matrix), row, column * matrix.element_bytes) ==
            NzTranscription{matrix}.offset(row, column));
}

constexpr std::int32_t num_layers = 3;
constexpr std::int32_t num_slots = 6;

/// In pieces of any size, both slots at a time, and none but those.
void convert(ExpertStore& store, LayerId layer, std::initializer_list<SlotId> slots) {
  store.open_layer(layer);
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (const SlotId slot : slots)
      is_done = store.convert_slot(layer, slot, *rc::gen::inRange<std::size_t>(0, 1500)) && is_done;
  }
}

/// Any sequence of exchanges, here followed on a plain map.
RC_GTEST_PROP(LayoutStores, HoldWhatWasExchangedInto, ()) {
  const auto arrangement =
      *rc::gen::elementOf(std::vector<Arrangement>(std::begin(all_arrangements), std::end(all_arrangements)));
  LayoutWeights weights(num_layers, ids<SlotId>(num_slots), arrangement, *rc::gen::inRange(0, 3));
  ExpertStore& store = weights.store();
  std::vector<ExpertId> map;
  for (std::int32_t i = 0; i < num_layers * num_slots; ++i) map.push_back(ExpertId{i % num_slots});
  const auto placement = [&] { return *Placement::make(num_layers, num_slots, num_slots, map); };
  weights.fill(placement());
  const std::uint64_t fingerprint = store.fingerprint();
  const auto num_rounds = *rc::gen::inRange(1, 8);
  for (int round = 0; round < num_rounds; ++round) {
    const LayerId layer{*rc::gen::inRange(0, num_layers)};
    const auto a = *rc::gen::inRange(0, num_slots);
    const auto b = *rc::gen::inRange(0, num_slots);
    std::vector<std::byte> staging(store.bundle_bytes(layer));
    if (*rc::gen::arbitrary<bool>()) {
      store.begin_layer(layer);
    } else {
      convert(store, layer, {SlotId{a}, SlotId{b}});
    }
    // The cycle of a swap through staging.
    store.read_bundle(layer, SlotId{a}, staging);
    store.exchange_bundle(layer, SlotId{b}, staging);
    store.exchange_bundle(layer, SlotId{a}, staging);
    store.end_layer(layer);
    const auto at = [&](std::int32_t slot) {
      return layer.index() * num_slots + static_cast<std::size_t>(slot);
    };
    std::swap(map[at(a)], map[at(b)]);
    RC_ASSERT(weights.find_difference(placement()) == "");
    RC_ASSERT(store.fingerprint() == fingerprint);
  }
}

/// One sound tensor of any kind, `*base` bytes into memory that nobody touches.
TensorSpec draw_tensor(std::int32_t num_store_slots, std::byte* base) {
  TensorSpec spec;
  spec.type = *rc::gen::element(ElementType::int8, ElementType::uint8, ElementType::float16,
                                ElementType::bfloat16, ElementType::int32, ElementType::float32);
  const std::size_t element = size_of(spec.type);
  const Matrix matrix{*rc::gen::inRange<std::size_t>(1, 40), *rc::gen::inRange<std::size_t>(1, 80), element};
  spec.base = base;
  spec.num_slots = num_store_slots;
  spec.num_fused = *rc::gen::inRange(0, 3);
  spec.slot_bytes = matrix.size_bytes();
  spec.layout.rows = matrix.rows;
  if (*rc::gen::arbitrary<bool>()) {
    spec.layout.format = Format::fractal_nz;
    spec.stride_bytes = NzTranscription{matrix}.size_bytes();
    return spec;
  }
  const std::size_t pitch = (matrix.columns + *rc::gen::inRange<std::size_t>(0, 5)) * element;
  spec.layout.row_pitch_bytes = pitch;
  spec.stride_bytes = pitch * matrix.rows + *rc::gen::inRange<std::size_t>(0, 9) * element;
  return spec;
}

struct Damage {
  const char* what;
  void (*apply)(TensorSpec&);
};

const std::vector<Damage> damages{{"null base", [](TensorSpec& t) { t.base = nullptr; }},
                                  {"empty slot", [](TensorSpec& t) { t.slot_bytes = 0; }},
                                  {"stride of 0", [](TensorSpec& t) { t.stride_bytes = 0; }},
                                  {"rows", [](TensorSpec& t) { t.layout.rows = t.slot_bytes + 1; }},
                                  {"slots", [](TensorSpec& t) { ++t.num_slots; }},
                                  {"fused shared experts", [](TensorSpec& t) { t.num_fused = -2; }},
                                  {"overlaps", [](TensorSpec& t) { t.base -= 1024 * 1024; }},
                                  {"address space", [](TensorSpec& t) {
                                     t.layout = {};
                                     t.stride_bytes = static_cast<std::size_t>(-1) / 4 / 4 * 4;
                                     t.num_fused = 8;
                                   }}};

RC_GTEST_PROP(RegisterLayer, TakesSoundBundlesAndNamesWhatIsNot, ()) {
  constexpr std::int32_t num_store_slots = 3;
  static std::vector<std::byte> memory(8 * 1024 * 1024);
  std::vector<TensorSpec> bundle;
  const auto num_tensors = *rc::gen::inRange<std::size_t>(2, 7);
  for (std::size_t i = 0; i < num_tensors; ++i) {
    bundle.push_back(draw_tensor(num_store_slots, memory.data() + i * 1024 * 1024));
    bundle.back().name = "tensor" + std::to_string(i);
  }
  ExpertStore store(1, ids<SlotId>(num_store_slots));
  std::vector<TensorSpec> damaged = bundle;
  const auto victim = *rc::gen::inRange<std::size_t>(1, num_tensors);
  const Damage damage = *rc::gen::elementOf(damages);
  damage.apply(damaged[victim]);
  const Status refused = store.register_layer(LayerId{0}, damaged);
  RC_TAG(std::string(damage.what));
  RC_ASSERT(!refused);
  RC_ASSERT(refused.error().message.starts_with("layer 0, tensor tensor" + std::to_string(victim) + ": "));
  RC_ASSERT(refused.error().message.find(damage.what) != std::string::npos);
  RC_ASSERT(store.workspace_bytes() == 0U);
  RC_ASSERT(store.register_layer(LayerId{0}, bundle).has_value());
  RC_ASSERT(store.needs_workspace(LayerId{0}) == !std::ranges::all_of(bundle, is_addressable));
}

}  // namespace
}  // namespace trimtab::test
