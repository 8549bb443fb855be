// SPDX-License-Identifier: Apache-2.0
#include <trimtab/balance/splitter.hpp>
#include <trimtab/plan/planner.hpp>

#include "batch.hpp"

#include <benchmark/benchmark.h>

#include <random>
#include <utility>
#include <vector>

namespace trimtab::bench {
namespace {

constexpr std::int32_t all_layers = 61;

/// Counts of a window in which popularity has drifted since the plan, and the plan.
struct Service {
  Topology topology = Topology::make_uniform(num_ranks, 4, num_slots).value();
  Placement placement;
  std::vector<std::int64_t> counts;  ///< [layers][experts]
};

Service make_service() {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> popularity(0.0, 0.5);
  std::lognormal_distribution<double> drift(0.0, 0.05);
  std::vector<double> planned;
  std::vector<std::int64_t> counts;
  for (std::int32_t i = 0; i < all_layers * num_experts; ++i) {
    planned.push_back(popularity(random));
    counts.push_back(static_cast<std::int64_t>(4096.0 * planned.back() * drift(random)));
  }
  const Topology topology = Topology::make_uniform(num_ranks, 4, num_slots).value();
  const LoadMatrix loads = LoadMatrix::make(all_layers, num_experts, std::move(planned)).value();
  PlanOptions options;
  options.shares = ShareMode::exact;
  SerialExecutor executor;
  return {topology, plan_rebalance(loads, topology, options, executor).value().placement, std::move(counts)};
}

/// Everything that an engine's statistics callback does.
void solve_and_publish(benchmark::State& state) {
  const Service service = make_service();
  Splitter splitter = Splitter::make(service.placement, service.topology, Epoch{0}).value();
  TablePublisher publisher(RoutingTable::compile(service.placement, service.topology, {Epoch{0}, 0}).value());
  SerialExecutor executor;
  for (auto _ : state) {
    if (!splitter.solve_and_publish(service.counts, publisher, executor)) state.SkipWithError("refused");
  }
  if (publisher.identity().split_version != static_cast<std::uint32_t>(state.iterations())) {
    state.SkipWithError("not published");
  }
}

/// The raw twin: the same table with even shares, compiled and swapped in without being solved for.
void compile_and_publish(benchmark::State& state) {
  const Service service = make_service();
  TablePublisher publisher(RoutingTable::compile(service.placement, service.topology, {Epoch{0}, 0}).value());
  std::uint32_t version = 0;
  for (auto _ : state) {
    auto table = RoutingTable::compile(service.placement, service.topology, {Epoch{0}, ++version});
    if (!table || !publisher.publish(*std::move(table))) state.SkipWithError("refused");
  }
}

BENCHMARK(solve_and_publish)->Name("balance/solve and publish 61x256")->Unit(benchmark::kMicrosecond);
BENCHMARK(compile_and_publish)->Name("balance/solve and publish 61x256/twin")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trimtab::bench
