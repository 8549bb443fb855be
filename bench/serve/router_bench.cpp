// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>

#include "replicated_layer.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <span>
#include <vector>

// Memory speed of a shared machine changes from second to second, so every iteration times a plain gather
// over the same buffers beside the dispatch: `gather_share` is the gather's time over the dispatch's.
namespace trimtab::bench {
namespace {

using Seconds = std::chrono::duration<double>;

/// The raw twin: one look-up per assignment in a flat map, no replicas, no checks.
void gather(std::span<const ExpertId> experts, std::span<SlotId> slots, std::span<const SlotId> map) {
  for (std::size_t i = 0; i < experts.size(); ++i) slots[i] = map[experts[i].index()];
  benchmark::DoNotOptimize(slots.data());
  benchmark::ClobberMemory();
}

template <class Work>
Seconds time_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::steady_clock::now() - begin;
}

/// How far any replica is from its share, in assignments; or -1 when a slot does not serve its expert.
double worst_deviation(const ReplicatedLayer& on, const std::vector<SlotId>& slots) {
  std::vector<std::int64_t> per_slot(on.num_slots());
  std::vector<std::int64_t> per_expert(num_experts);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (on.expert_at(slots[i]) != on.experts()[i]) return -1.0;
    ++per_slot[slots[i].index()];
    ++per_expert[on.experts()[i].index()];
  }
  double worst = 0.0;
  for (ExpertId expert : ids<ExpertId>(num_experts)) {
    const auto replicas = on.table().replicas(on.layer(), expert);
    const auto begins = on.table().share_begins(on.layer(), expert);
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      const double share = std::ldexp(static_cast<double>(RoutingTable::share_at(begins, r)), -32);
      const double due = share * static_cast<double>(per_expert[expert.index()]);
      worst = std::max(worst, std::abs(due - static_cast<double>(per_slot[replicas[r].index()])));
    }
  }
  return worst;
}

/// Deviation from the shares that one batch may have: in `nearest` shares are met over ranks, not by one.
double allowed_deviation(DispatchMode mode, std::size_t num_assignments) {
  if (mode == DispatchMode::quota || mode == DispatchMode::exact_batch) return 1.0;
  return mode == DispatchMode::nearest ? static_cast<double>(num_assignments)
                                       : 4.0 * std::sqrt(static_cast<double>(num_assignments));
}

void dispatch(benchmark::State& state, DispatchMode mode) {
  const ReplicatedLayer on(static_cast<std::int32_t>(state.range(0)),
                           static_cast<std::size_t>(state.range(1)) * 1024);
  std::vector<SlotId> slots(on.experts().size());
  std::vector<SlotId> map;
  for (ExpertId expert : ids<ExpertId>(num_experts)) {
    map.push_back(on.table().replicas(on.layer(), expert).front());
  }
  Batch batch{.top_k = top_k};
  if (mode == DispatchMode::exact_batch) batch.assignments = on.assignments();
  // Each iteration is a first batch: what the bound is about begins with the table.
  Seconds gathered{0};
  Seconds dispatched{0};
  Router router(num_layers, num_experts, Rank{3}, {.mode = mode});
  if (!router.dispatch(on.table(), on.layer(), on.experts(), slots, batch)) {
    return state.SkipWithError("refused");
  }
  if (worst_deviation(on, slots) < 0.0 ||
      worst_deviation(on, slots) >= allowed_deviation(mode, slots.size())) {
    return state.SkipWithError("wrong slots");
  }
  for (auto _ : state) {
    gathered += time_of([&] { gather(on.experts(), slots, map); });
    bool is_sound = true;
    const Seconds time = time_of([&] {
      is_sound = router.dispatch(on.table(), on.layer(), on.experts(), slots, batch).has_value();
      benchmark::DoNotOptimize(slots.data());
    });
    dispatched += time;
    state.SetIterationTime(time.count());
    // Over a whole window, so twice the bound of a prefix.
    const double worst = worst_deviation(on, slots);
    if (!is_sound || worst < 0.0 || worst >= 2 * allowed_deviation(mode, slots.size())) {
      state.SkipWithError("wrong slots");
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(slots.size()));
  state.counters["gather_share"] = gathered / dispatched;
}

void raw_gather(benchmark::State& state) {
  const ReplicatedLayer on(static_cast<std::int32_t>(state.range(0)),
                           static_cast<std::size_t>(state.range(1)) * 1024);
  std::vector<SlotId> slots(on.experts().size());
  std::vector<SlotId> map;
  for (ExpertId expert : ids<ExpertId>(num_experts)) {
    map.push_back(on.table().replicas(on.layer(), expert).front());
  }
  for (auto _ : state) {
    state.SetIterationTime(time_of([&] { gather(on.experts(), slots, map); }).count());
    const bool right =
        std::ranges::equal(on.experts(), slots, {}, [&](ExpertId e) { return map[e.index()]; });
    if (!right) state.SkipWithError("wrong slots");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(slots.size()));
}

void add_sizes(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMicrosecond)->UseManualTime();
  bench->Args({32, 1024})->Args({64, 1024})->Args({64, 64})->Args({64, 1});
}

BENCHMARK_CAPTURE(dispatch, nearest, DispatchMode::nearest)->Name("route/nearest")->Apply(add_sizes);
BENCHMARK(raw_gather)->Name("route/nearest/twin")->Apply(add_sizes);
BENCHMARK_CAPTURE(dispatch, rank_invariant, DispatchMode::rank_invariant)
    ->Name("route/rank-invariant")
    ->Apply(add_sizes);
BENCHMARK(raw_gather)->Name("route/rank-invariant/twin")->Apply(add_sizes);
BENCHMARK_CAPTURE(dispatch, quota, DispatchMode::quota)->Name("route/quota")->Apply(add_sizes);
BENCHMARK(raw_gather)->Name("route/quota/twin")->Apply(add_sizes);
BENCHMARK_CAPTURE(dispatch, exact_batch, DispatchMode::exact_batch)
    ->Name("route/exact-batch")
    ->Apply(add_sizes);
BENCHMARK(raw_gather)->Name("route/exact-batch/twin")->Apply(add_sizes);

}  // namespace
}  // namespace trimtab::bench
