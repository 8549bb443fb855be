// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/table_publisher.hpp>

#include "batch.hpp"

#include <benchmark/benchmark.h>

#include <memory>

namespace trimtab::bench {
namespace {

void publisher_acquire(benchmark::State& state) {
  TablePublisher publisher(make_table(5));
  TableReader reader = publisher.make_reader();
  std::uint64_t sum = 0;
  for (auto _ : state) sum += reader.acquire()->identity().epoch.value();
  if (sum != 5 * static_cast<std::uint64_t>(state.iterations())) state.SkipWithError("wrong table");
}

/// The raw twin: a load that keeps nothing alive.
void raw_pointer_load(benchmark::State& state) {
  const RoutingTable table = make_table(5);
  std::atomic<const RoutingTable*> current = &table;
  std::uint64_t sum = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(current);
    sum += current.load(std::memory_order_acquire)->identity().epoch.value();
  }
  if (sum != 5 * static_cast<std::uint64_t>(state.iterations())) state.SkipWithError("wrong table");
}

/// Swap and free, with 8 readers to look at. The table is made outside the timing.
void publisher_publish(benchmark::State& state) {
  TablePublisher publisher(make_table(0));
  std::vector<TableReader> readers;
  for (int i = 0; i < 8; ++i) readers.push_back(publisher.make_reader());
  std::uint64_t epoch = 0;
  for (auto _ : state) {
    state.PauseTiming();
    RoutingTable next = make_table(++epoch);
    state.ResumeTiming();
    if (!publisher.publish(std::move(next))) state.SkipWithError("refused");
  }
  if (publisher.identity().epoch != Epoch{epoch} || publisher.num_retired() != 0)
    state.SkipWithError("wrong table");
}

/// The raw twin: what a swap costs when the old table is simply freed.
void raw_pointer_swap(benchmark::State& state) {
  auto owned = std::make_unique<const RoutingTable>(make_table(0));
  std::atomic<const RoutingTable*> current = owned.get();
  std::uint64_t epoch = 0;
  for (auto _ : state) {
    state.PauseTiming();
    RoutingTable next = make_table(++epoch);
    state.ResumeTiming();
    auto fresh = std::make_unique<const RoutingTable>(std::move(next));
    current.store(fresh.get());
    owned = std::move(fresh);
  }
  if (current.load()->identity().epoch != Epoch{epoch}) state.SkipWithError("wrong table");
}

BENCHMARK(publisher_acquire)->Name("route/acquire table");
BENCHMARK(raw_pointer_load)->Name("route/acquire table/twin");
BENCHMARK(publisher_publish)
    ->Name("route/publish table")
    ->Iterations(1000);  // Making a table costs far more than the swap that is timed.
BENCHMARK(raw_pointer_swap)->Name("route/publish table/twin")->Iterations(1000);

}  // namespace
}  // namespace trimtab::bench
