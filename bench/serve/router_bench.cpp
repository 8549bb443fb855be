// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>

#include "batch.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>

namespace trimtab::bench {
namespace {

constexpr LayerId layer{1};

void report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(num_assignments));
}

/// Whether each slot serves its expert, and the replicas of each expert differ by at most one.
bool shares_are_even(const RoutingTable& table, const std::vector<ExpertId>& experts,
                     const std::vector<SlotId>& slots) {
  std::vector<std::int64_t> counts(num_slots);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (std::ranges::count(table.replicas(layer, experts[i]), slots[i]) != 1) return false;
    ++counts[slots[i].index()];
  }
  for (ExpertId expert : ids<ExpertId>(num_experts)) {
    const auto [least, most] = std::ranges::minmax(table.replicas(layer, expert), {},
                                                   [&](SlotId slot) { return counts[slot.index()]; });
    if (counts[most.index()] - counts[least.index()] > 1) return false;
  }
  return true;
}

void router_dispatch(benchmark::State& state) {
  const RoutingTable table = make_table(1);
  const std::vector<ExpertId> experts = make_experts();
  std::vector<SlotId> slots(experts.size());
  Router router(num_layers, num_experts, Rank{3});
  for (auto _ : state) {
    const Status status = router.dispatch(table, layer, experts, slots);
    benchmark::DoNotOptimize(slots.data());
    state.PauseTiming();
    if (!status || !shares_are_even(table, experts, slots)) state.SkipWithError("wrong slots");
    state.ResumeTiming();
  }
  report(state);
}

/// The raw twin: one look-up per assignment in a flat map, no replicas, no checks.
void raw_gather(benchmark::State& state) {
  const RoutingTable table = make_table(1);
  const std::vector<ExpertId> experts = make_experts();
  std::vector<SlotId> slots(experts.size());
  std::vector<SlotId> map;
  for (ExpertId expert : ids<ExpertId>(num_experts)) map.push_back(table.replicas(layer, expert).front());
  for (auto _ : state) {
    for (std::size_t i = 0; i < experts.size(); ++i) slots[i] = map[experts[i].index()];
    benchmark::DoNotOptimize(slots.data());
    benchmark::ClobberMemory();
    state.PauseTiming();
    const bool right = std::ranges::equal(experts, slots, {}, [&](ExpertId e) { return map[e.index()]; });
    if (!right) state.SkipWithError("wrong slots");
    state.ResumeTiming();
  }
  report(state);
}

BENCHMARK(router_dispatch)->Name("route/dispatch 64k x 8")->Unit(benchmark::kMicrosecond);
BENCHMARK(raw_gather)->Name("route/dispatch 64k x 8/twin")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trimtab::bench
