// SPDX-License-Identifier: Apache-2.0
#include <trimtab/record/recorder.hpp>

#include "batch.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>

namespace trimtab::bench {
namespace {

constexpr LayerId layer{1};

void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(num_assignments));
}

std::vector<SlotId> make_slots() {
  const RoutingTable table = make_table(1);
  std::vector<SlotId> slots;
  for (ExpertId expert : make_experts()) slots.push_back(table.replicas(layer, expert).front());
  return slots;
}

std::vector<std::int64_t> histogram_of(const std::vector<SlotId>& slots, std::int64_t times) {
  std::vector<std::int64_t> counts(num_slots);
  for (SlotId slot : slots) counts[slot.index()] += times;
  return counts;
}

void recorder_record(benchmark::State& state) {
  const std::vector<SlotId> slots = make_slots();
  Recorder recorder(num_layers, num_slots, top_k);
  bool recorded = true;
  for (auto _ : state) {
    recorded &= recorder.record({}, Epoch{1}, layer, slots, num_assignments / top_k).has_value();
  }
  recorder.commit_forward();
  const SlotCounts window = recorder.take_window({}).at(0);
  const auto row = std::span(window.counts).subspan(layer.index() * num_slots, num_slots);
  const auto expected = histogram_of(slots, static_cast<std::int64_t>(state.iterations()));
  if (!recorded || !std::ranges::equal(row, expected)) state.SkipWithError("wrong counts");
  report(state);
}

/// The raw twin: a plain loop over the slots, no checks.
void raw_histogram(benchmark::State& state) {
  const std::vector<SlotId> slots = make_slots();
  std::vector<std::int64_t> counts(num_slots);
  for (auto _ : state) {
    for (SlotId slot : slots) ++counts[slot.index()];
    benchmark::DoNotOptimize(counts.data());
    benchmark::ClobberMemory();
  }
  if (counts != histogram_of(slots, static_cast<std::int64_t>(state.iterations())))
    state.SkipWithError("wrong counts");
  report(state);
}

/// A whole forward of a large model: 61 layers of a small decode batch, and its commit.
void recorder_decode_forward(benchmark::State& state) {
  constexpr std::int32_t model_layers = 61;
  constexpr std::size_t tokens = 64;
  std::vector<SlotId> slots = make_slots();
  slots.resize(tokens * top_k);
  Recorder recorder(model_layers, num_slots, top_k);
  for (auto _ : state) {
    for (LayerId l : ids<LayerId>(model_layers)) {
      if (!recorder.record({}, Epoch{1}, l, slots, tokens)) state.SkipWithError("refused");
    }
    recorder.commit_forward();
  }
  const SlotCounts window = recorder.take_window({}).at(0);
  const auto row = std::span(window.counts).last(num_slots);
  const auto expected = histogram_of(slots, static_cast<std::int64_t>(state.iterations()));
  if (!std::ranges::equal(row, expected)) state.SkipWithError("wrong counts");
  state.SetItemsProcessed(state.iterations() * model_layers * static_cast<std::int64_t>(slots.size()));
}

/// The raw twin of a forward: one histogram over all layers, nothing to abandon or commit.
void raw_decode_forward(benchmark::State& state) {
  constexpr std::size_t model_layers = 61;
  std::vector<SlotId> slots = make_slots();
  slots.resize(64 * std::size_t{top_k});
  std::vector<std::int64_t> counts(model_layers * num_slots);
  for (auto _ : state) {
    for (std::size_t l = 0; l < model_layers; ++l) {
      for (SlotId slot : slots) ++counts[l * num_slots + slot.index()];
    }
    benchmark::DoNotOptimize(counts.data());
    benchmark::ClobberMemory();
  }
  const auto expected = histogram_of(slots, static_cast<std::int64_t>(state.iterations()));
  if (!std::ranges::equal(std::span(counts).last(num_slots), expected)) state.SkipWithError("wrong counts");
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(model_layers * slots.size()));
}

BENCHMARK(recorder_record)->Name("record/batch of 64k x 8")->Unit(benchmark::kMicrosecond);
BENCHMARK(raw_histogram)->Name("record/batch of 64k x 8/twin")->Unit(benchmark::kMicrosecond);
BENCHMARK(recorder_decode_forward)->Name("record/decode forward of 61 layers")->Unit(benchmark::kMicrosecond);
BENCHMARK(raw_decode_forward)->Name("record/decode forward of 61 layers/twin")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trimtab::bench
