// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

namespace trimtab::bench {
namespace {

constexpr LayerId layer{0};
constexpr std::int32_t num_slots = 4;
constexpr std::size_t hidden = 2048;
constexpr std::size_t intermediate = 1024;

/// A layer of W8A8 bundles, each slot filled with its own byte.
struct BundleStore {
  std::vector<std::vector<std::byte>> memory;
  ExpertStore store{1, ids<SlotId>(num_slots)};

  BundleStore() {
    std::vector<TensorSpec> tensors;
    const auto add = [&](const char* name, ElementType type, std::size_t elements) {
      TensorSpec spec;
      spec.name = name;
      spec.type = type;
      spec.num_slots = num_slots;
      spec.slot_bytes = spec.stride_bytes = elements * size_of(type);
      spec.base = memory.emplace_back(spec.slot_bytes * num_slots).data();
      tensors.push_back(spec);
    };
    add("w13", ElementType::int8, 2 * intermediate * hidden);
    add("w13_scale", ElementType::float32, 2 * intermediate);
    add("w13_offset", ElementType::int32, 2 * intermediate);
    add("w2", ElementType::int8, intermediate * hidden);
    add("w2_scale", ElementType::float32, hidden);
    add("w2_offset", ElementType::int32, hidden);
    is_registered = store.register_layer(layer, tensors).has_value();
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      for (SlotId slot : store.slots())
        std::ranges::fill(store.tensor_slot(layer, tensor, slot), byte_of(slot));
    }
  }

  static std::byte byte_of(SlotId slot) { return static_cast<std::byte>(slot.value() + 1); }

  bool is_registered = false;
};

bool is_filled_with(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::count(bytes, value) == static_cast<std::ptrdiff_t>(bytes.size());
}

void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

/// One call in two puts the bundle back, so that both contents are known after any number.
void store_exchange_bundle(benchmark::State& state) {
  BundleStore weights;
  const SlotId slot{2};
  std::vector<std::byte> bundle(weights.store.bundle_bytes(layer), std::byte{99});
  bool is_staged = true;
  for (auto _ : state) {
    weights.store.exchange_bundle(layer, slot, bundle);
    is_staged = !is_staged;
    state.PauseTiming();
    std::vector<std::byte> live(bundle.size());
    weights.store.read_bundle(layer, slot, live);
    const auto& [foreign, own] = is_staged ? std::tie(bundle, live) : std::tie(live, bundle);
    if (!is_filled_with(foreign, std::byte{99}) || !is_filled_with(own, BundleStore::byte_of(slot))) {
      state.SkipWithError("wrong bytes");
    }
    state.ResumeTiming();
  }
  report(state, bundle.size());
}

void store_read_bundle(benchmark::State& state) {
  const BundleStore weights;
  const SlotId slot{2};
  std::vector<std::byte> bundle(weights.store.bundle_bytes(layer));
  for (auto _ : state) {
    weights.store.read_bundle(layer, slot, bundle);
    benchmark::DoNotOptimize(bundle.data());
    benchmark::ClobberMemory();
  }
  if (!is_filled_with(bundle, BundleStore::byte_of(slot))) state.SkipWithError("wrong bytes");
  report(state, bundle.size());
}

void store_checksum(benchmark::State& state) {
  const BundleStore weights;
  const SlotId slot{2};
  const std::size_t size = weights.store.bundle_bytes(layer);
  const std::uint64_t expected =
      ExpertStore::checksum(layer, std::vector<std::byte>(size, BundleStore::byte_of(slot)), ExpertId{7});
  for (auto _ : state) {
    if (weights.store.checksum(layer, slot, ExpertId{7}) != expected) state.SkipWithError("wrong checksum");
  }
  report(state, size);
}

/// The raw twin of all three: a bundle as one piece, copied once.
void raw_memcpy(benchmark::State& state) {
  const std::size_t size = BundleStore().store.bundle_bytes(layer);
  const std::vector<std::byte> from(size, std::byte{99});
  std::vector<std::byte> to(size);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  if (to != from) state.SkipWithError("wrong bytes");
  report(state, size);
}

BENCHMARK(store_exchange_bundle)->Name("weights/exchange bundle")->Unit(benchmark::kMicrosecond);
BENCHMARK(store_read_bundle)->Name("weights/read bundle")->Unit(benchmark::kMicrosecond);
BENCHMARK(store_checksum)->Name("weights/checksum bundle")->Unit(benchmark::kMicrosecond);
BENCHMARK(raw_memcpy)->Name("weights/twin")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trimtab::bench
