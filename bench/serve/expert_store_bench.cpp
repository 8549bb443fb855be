// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>
#include <trimtab/weights/fractal_nz.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace trimtab::bench {
namespace {

constexpr LayerId layer{0};
constexpr std::int32_t num_slots = 4;
constexpr std::size_t hidden = 2048;
constexpr std::size_t intermediate = 1024;

enum class Arrangement : std::uint8_t { dense, padded_slots, padded_rows, nz };

/// A layer of W8A8 bundles, each slot filled with its own byte.
struct BundleStore {
  std::vector<std::vector<std::byte>> memory;
  ExpertStore store{1, ids<SlotId>(num_slots)};
  Arrangement arrangement;

  explicit BundleStore(Arrangement wanted = Arrangement::dense) : arrangement(wanted) {
    std::vector<TensorSpec> tensors;
    const auto add = [&](const char* name, ElementType type, std::size_t rows, std::size_t columns) {
      tensors.push_back(make_spec(name, type, rows, columns * size_of(type)));
    };
    add("w13", ElementType::int8, 2 * intermediate, hidden);
    add("w13_scale", ElementType::float32, 1, 2 * intermediate);
    add("w13_offset", ElementType::int32, 1, 2 * intermediate);
    add("w2", ElementType::int8, hidden, intermediate);
    add("w2_scale", ElementType::float32, 1, hidden);
    add("w2_offset", ElementType::int32, 1, hidden);
    is_registered = store.register_layer(layer, tensors).has_value();
    store.begin_layer(layer);
    for (SlotId slot : store.slots()) {
      std::vector<std::byte> bundle(store.bundle_bytes(layer), byte_of(slot));
      store.exchange_bundle(layer, slot, bundle);
    }
    store.end_layer(layer);
  }

  static std::byte byte_of(SlotId slot) { return static_cast<std::byte>(slot.value() + 1); }

  [[nodiscard]] bool holds(SlotId slot, std::byte value) {
    std::vector<std::byte> bundle(store.bundle_bytes(layer));
    store.begin_layer(layer);
    store.read_bundle(layer, slot, bundle);
    store.end_layer(layer);
    return std::ranges::count(bundle, value) == static_cast<std::ptrdiff_t>(bundle.size());
  }

  bool is_registered = false;

 private:
  TensorSpec make_spec(const char* name, ElementType type, std::size_t rows, std::size_t row_bytes) {
    TensorSpec spec;
    spec.name = name;
    spec.type = type;
    spec.num_slots = num_slots;
    spec.slot_bytes = spec.stride_bytes = rows * row_bytes;
    spec.layout.rows = rows;
    if (arrangement == Arrangement::padded_slots) spec.stride_bytes += 64;
    if (arrangement == Arrangement::padded_rows && rows > 1) {
      spec.layout.row_pitch_bytes = row_bytes + 64;
      spec.stride_bytes = rows * spec.layout.row_pitch_bytes;
    }
    if (arrangement == Arrangement::nz && rows > 1) {
      spec.layout.format = Format::fractal_nz;
      spec.stride_bytes = nz_bytes({rows, row_bytes});
    }
    spec.base = memory.emplace_back(spec.stride_bytes * num_slots).data();
    return spec;
  }
};

constexpr SlotId slot{2};

bool is_filled_with(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::count(bytes, value) == static_cast<std::ptrdiff_t>(bytes.size());
}

void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

/// As in a step of one bundle: where slots are not addressable, the whole layer goes to a workspace and back.
/// One call in two puts the bundle back, so that both contents are known after any number.
void store_exchange_bundle(benchmark::State& state, Arrangement arrangement) {
  BundleStore weights(arrangement);
  std::vector<std::byte> bundle(weights.store.bundle_bytes(layer), std::byte{99});
  bool is_staged = true;
  for (auto _ : state) {
    weights.store.begin_layer(layer);
    weights.store.exchange_bundle(layer, slot, bundle);
    weights.store.end_layer(layer);
    is_staged = !is_staged;
  }
  const std::byte own = BundleStore::byte_of(slot);
  if (!is_filled_with(bundle, is_staged ? std::byte{99} : own) ||
      !weights.holds(slot, is_staged ? own : std::byte{99}) ||
      !weights.holds(SlotId{3}, BundleStore::byte_of(SlotId{3}))) {
    state.SkipWithError("wrong bytes");
  }
  report(state, bundle.size());
}

void store_read_bundle(benchmark::State& state, Arrangement arrangement) {
  BundleStore weights(arrangement);
  std::vector<std::byte> bundle(weights.store.bundle_bytes(layer));
  for (auto _ : state) {
    weights.store.begin_layer(layer);
    weights.store.read_bundle(layer, slot, bundle);
    weights.store.end_layer(layer);
    benchmark::DoNotOptimize(bundle.data());
    benchmark::ClobberMemory();
  }
  if (!is_filled_with(bundle, BundleStore::byte_of(slot))) state.SkipWithError("wrong bytes");
  report(state, bundle.size());
}

void store_checksum(benchmark::State& state) {
  const BundleStore weights;
  const std::size_t size = weights.store.bundle_bytes(layer);
  const std::uint64_t expected =
      ExpertStore::checksum(layer, std::vector<std::byte>(size, BundleStore::byte_of(slot)), ExpertId{7});
  for (auto _ : state) {
    if (weights.store.checksum(layer, slot, ExpertId{7}) != expected) state.SkipWithError("wrong checksum");
  }
  report(state, size);
}

/// The raw twin: a bundle as one piece copied once, and for layouts without addressable slots all slots of
/// the layer, `num_layer_copies` times.
void raw_memcpy(benchmark::State& state, std::size_t num_layer_copies) {
  const std::size_t size = BundleStore().store.bundle_bytes(layer);
  const std::vector<std::byte> from(size * num_slots, std::byte{99});
  std::vector<std::byte> to(size * num_slots);
  for (auto _ : state) {
    for (std::size_t i = 0; i < num_layer_copies; ++i) {
      std::memcpy(to.data(), from.data(), to.size());
      benchmark::ClobberMemory();
    }
    std::memcpy(to.data(), from.data(), size);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  if (!is_filled_with(std::span(to).first(size), std::byte{99})) state.SkipWithError("wrong bytes");
  report(state, size);
}

const auto unit = benchmark::kMicrosecond;
BENCHMARK_CAPTURE(store_exchange_bundle, , Arrangement::dense)->Name("weights/exchange bundle")->Unit(unit);
BENCHMARK_CAPTURE(store_exchange_bundle, , Arrangement::padded_slots)
    ->Name("weights/exchange bundle/padded slots")
    ->Unit(unit);
BENCHMARK_CAPTURE(store_exchange_bundle, , Arrangement::padded_rows)
    ->Name("weights/exchange bundle/padded rows")
    ->Unit(unit);
BENCHMARK_CAPTURE(raw_memcpy, , 1)->Name("weights/exchange bundle/padded rows/twin")->Unit(unit);
BENCHMARK_CAPTURE(store_exchange_bundle, , Arrangement::nz)->Name("weights/exchange bundle/nz")->Unit(unit);
BENCHMARK_CAPTURE(raw_memcpy, , 2)->Name("weights/exchange bundle/nz/twin")->Unit(unit);
BENCHMARK_CAPTURE(store_read_bundle, , Arrangement::dense)->Name("weights/read bundle")->Unit(unit);
BENCHMARK_CAPTURE(store_read_bundle, , Arrangement::padded_slots)
    ->Name("weights/read bundle/padded slots")
    ->Unit(unit);
BENCHMARK_CAPTURE(store_read_bundle, , Arrangement::padded_rows)
    ->Name("weights/read bundle/padded rows")
    ->Unit(unit);
BENCHMARK_CAPTURE(raw_memcpy, , 1)->Name("weights/read bundle/padded rows/twin")->Unit(unit);
BENCHMARK_CAPTURE(store_read_bundle, , Arrangement::nz)->Name("weights/read bundle/nz")->Unit(unit);
BENCHMARK_CAPTURE(raw_memcpy, , 1)->Name("weights/read bundle/nz/twin")->Unit(unit);
BENCHMARK(store_checksum)->Name("weights/checksum bundle")->Unit(unit);
BENCHMARK_CAPTURE(raw_memcpy, , 0)->Name("weights/twin")->Unit(unit);

}  // namespace
}  // namespace trimtab::bench
