// SPDX-License-Identifier: Apache-2.0
//
// Time and quality of plan_rebalance, one thread, beside a raw twin: highest average and heaviest first in
// plain loops, without exclusion of second copies, repair, improvement or bound. Lognormal loads, sigma 1.
// Columns: imbalance and bound, means over layers; duplicates, second copies of an expert on a rank.
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/planner.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "registered_main.hpp"
#include "support/generated_loads.hpp"

namespace trimtab {
namespace {

struct Shape {
  const char* name;
  test::LoadShape loads;
  std::int32_t slots, ranks, nodes, groups;
};

constexpr Shape shapes[] = {
    {"58x256-288/32", {58, 256}, 288, 32, 4, 1},
    {"58x256-288/32,groups:8,nodes:4", {58, 256}, 288, 32, 4, 8},
    {"58x256-320/320", {58, 256}, 320, 320, 1, 1},
    {"58x256-288/144", {58, 256}, 288, 144, 1, 1},
    {"61x384-448/64", {61, 384}, 448, 64, 1, 1},
    {"94x128-160/32", {94, 128}, 160, 32, 1, 1},
    {"100x1024-1280/256", {100, 1024}, 1280, 256, 1, 1},
};

Topology topology_of(const Shape& shape) {
  return Topology::make_uniform(shape.ranks, shape.nodes, shape.slots).value();
}

/// The raw twin, for one layer of equal ranks: expert of each slot.
std::vector<std::size_t> plan_plainly(std::span<const double> loads, std::size_t num_slots,
                                      std::size_t num_ranks) {
  std::vector<double> count(loads.size(), 1.0);
  for (std::size_t s = loads.size(); s < num_slots; ++s) {
    std::size_t best = 0;
    for (std::size_t e = 1; e < loads.size(); ++e) {
      if (loads[e] / count[e] > loads[best] / count[best]) best = e;
    }
    count[best] += 1.0;
  }
  std::vector<std::pair<double, std::size_t>> replicas;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    replicas.insert(replicas.end(), static_cast<std::size_t>(count[e]), {-loads[e] / count[e], e});
  }
  std::sort(replicas.begin(), replicas.end());
  const std::size_t slots_per_rank = num_slots / num_ranks;
  std::vector<double> load(num_ranks, 0.0);
  std::vector<std::size_t> used(num_ranks, 0);
  std::vector<std::size_t> expert_at(num_slots);
  for (const auto& [negative_share, e] : replicas) {
    std::size_t best = num_ranks;
    for (std::size_t r = 0; r < num_ranks; ++r) {
      if (used[r] < slots_per_rank && (best == num_ranks || load[r] < load[best])) best = r;
    }
    load[best] -= negative_share;
    expert_at[best * slots_per_rank + used[best]++] = e;
  }
  return expert_at;
}

double mean_imbalance(const LoadMatrix& loads, const Topology& topology, const Placement& placement) {
  double sum = 0.0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const auto rank_loads = compute_rank_loads(loads.layer(layer), placement.layer(layer), topology);
    sum += compute_imbalance(rank_loads, topology).max_over_mean();
  }
  return sum / loads.num_layers();
}

double count_duplicates(const Topology& topology, const Placement& placement) {
  double duplicates = 0.0;
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (ExpertId e : ids<ExpertId>(placement.num_experts())) {
      const auto slots = placement.replicas(layer, e);
      const auto on_same_rank = [&](SlotId a, SlotId b) {
        return topology.rank_of(a) == topology.rank_of(b);
      };
      for (std::size_t i = 1; i < slots.size(); ++i)
        duplicates += on_same_rank(slots[i - 1], slots[i]) ? 1 : 0;
    }
  }
  return duplicates;
}

/// Checks I1 for both and fills the columns they share.
void verify(benchmark::State& state, const LoadMatrix& loads, const Topology& topology,
            const Placement& placement) {
  if (!check_live(placement, topology)) state.SkipWithError("an expert has no live slot");
  state.counters["imbalance"] = mean_imbalance(loads, topology, placement);
  state.counters["duplicates"] = count_duplicates(topology, placement);
}

void plan_with_trimtab(benchmark::State& state, const Shape& shape) {
  const LoadMatrix loads = test::lognormal_loads(shape.loads, 1.0, 7);
  const Topology topology = topology_of(shape);
  const PlanOptions options{.num_groups = shape.groups};
  SerialExecutor executor;
  Result<Plan> plan = plan_rebalance(loads, topology, options, executor);
  for (auto _ : state) {
    plan = plan_rebalance(loads, topology, options, executor);
    benchmark::DoNotOptimize(plan);
  }
  if (!plan) return state.SkipWithError(plan.error().message.c_str());
  verify(state, loads, topology, plan->placement);
  if (state.counters["duplicates"] != 0.0) state.SkipWithError("an expert lies twice on a rank (I2)");
  double bound = 0.0;
  for (const LayerReport& layer : plan->layers) bound += layer.bound / loads.num_layers();
  state.counters["bound"] = bound;
}

void plan_raw(benchmark::State& state, const Shape& shape) {
  const LoadMatrix loads = test::lognormal_loads(shape.loads, 1.0, 7);
  std::vector<ExpertId> map;
  for (auto _ : state) {
    map.clear();
    for (LayerId layer : ids<LayerId>(loads.num_layers())) {
      const auto row = plan_plainly(loads.layer(layer), static_cast<std::size_t>(shape.slots),
                                    static_cast<std::size_t>(shape.ranks));
      for (std::size_t e : row) map.push_back(ExpertId{static_cast<ExpertId::rep>(e)});
    }
    benchmark::DoNotOptimize(map);
  }
  const auto placement =
      Placement::make(loads.num_layers(), shape.slots, loads.num_experts(), std::move(map));
  if (!placement) return state.SkipWithError(placement.error().message.c_str());
  verify(state, loads, topology_of(shape), *placement);
}

void register_all() {
  for (const Shape& shape : shapes) {
    const auto add = [&](const char* who, auto run) {
      benchmark::RegisterBenchmark((std::string("plan/") + shape.name + who).c_str(),
                                   [&shape, run](benchmark::State& state) { run(state, shape); })
          ->Unit(benchmark::kMillisecond);
    };
    add("", plan_with_trimtab);
    if (shape.groups == 1) add("/twin", plan_raw);
  }
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) { return trimtab::bench::run_registered(argc, argv, trimtab::register_all); }
