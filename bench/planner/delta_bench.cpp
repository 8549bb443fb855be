// SPDX-License-Identifier: Apache-2.0
//
// Time and moves of plan_delta, one thread, beside a raw twin: the full re-plan with its ranks relabelled by
// optimal assignment, which is what an engine can do without a delta planner. Placements are planned for one
// window and used under the next: drift by lognormal(sigma) of lognormal(0.5) loads, or recorded prefill
// loads followed by decode loads where TRIMTAB_LOADS_DIR has them. Columns: share of all slots moved,
// imbalance (mean over layers), the same of the full re-plan, and a lower bound on the share.
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/delta.hpp>

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "plan/relabel.hpp"
#include "registered_main.hpp"
#include "support/drifting_loads.hpp"
#include "support/generated_loads.hpp"
#include "support/recorded_loads.hpp"

namespace trimtab {
namespace {

struct Case {
  std::string name;
  LoadMatrix before;
  LoadMatrix after;
  Topology topology;
  PlanOptions options;
  DeltaOptions delta;
};

Placement planned(const LoadMatrix& loads, const Case& given) {
  SerialExecutor executor;
  return plan_rebalance(loads, given.topology, given.options, executor).value().placement;
}

double mean_imbalance(const LoadMatrix& loads, const Topology& topology, const Placement& placement) {
  double sum = 0.0;
  double layers = 0.0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) continue;
    const auto rank_loads = compute_rank_loads(loads.layer(layer), placement.layer(layer), topology);
    sum += compute_imbalance(rank_loads, topology).max_over_mean();
    layers += 1.0;
  }
  return sum / layers;
}

double slots_of(const Case& given) {
  return static_cast<double>(given.after.num_layers()) * given.topology.num_slots();
}

/// Counts moves anew, whatever a planner says.
void verify(benchmark::State& state, const Case& given, const Placement& current, const Placement& next) {
  if (!check_live(next, given.topology)) return state.SkipWithError("an expert has no live slot");
  const auto diff = diff_placements(current, given.topology, next, given.topology).value();
  state.counters["moved"] = static_cast<double>(total_counts(diff).moves) / slots_of(given);
  state.counters["imbalance"] = mean_imbalance(given.after, given.topology, next);
}

void plan_with_trimtab(benchmark::State& state, const Case& given) {
  const Placement current = planned(given.before, given);
  SerialExecutor executor;
  const auto plan = [&] {
    return plan_delta(given.after, current, given.topology, given.options, given.delta, executor);
  };
  Result<DeltaPlan> made = plan();
  for (auto _ : state) {
    made = plan();
    benchmark::DoNotOptimize(made);
  }
  if (!made) return state.SkipWithError(made.error().message.c_str());
  verify(state, given, current, made->plan.placement);
  double bound = 0.0;
  for (const LayerDelta& layer : made->layers) bound += layer.moves_bound;
  state.counters["bound"] = bound / slots_of(given);
  state.counters["full"] = mean_imbalance(given.after, given.topology, planned(given.after, given));
}

Placement relabelled(const Placement& current, const Placement& full, const Case& given) {
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(full.num_layers())) {
    const Holders holders(current.layer(layer), current.num_experts(), given.topology);
    const auto row = relabel_ranks(full.layer(layer), holders, given.topology, given.options.num_groups > 1);
    map.insert(map.end(), row.begin(), row.end());
  }
  return Placement::make(full.num_layers(), full.num_slots(), full.num_experts(), std::move(map)).value();
}

void relabel_raw(benchmark::State& state, const Case& given) {
  const Placement current = planned(given.before, given);
  Placement next = current;
  for (auto _ : state) {
    next = relabelled(current, planned(given.after, given), given);
    benchmark::DoNotOptimize(next);
  }
  verify(state, given, current, next);
}

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
};

void register_case(Case given) {
  const auto shared = std::make_shared<const Case>(std::move(given));
  const auto add = [&](const char* who, auto run) {
    benchmark::RegisterBenchmark(("delta/" + shared->name + who).c_str(), [shared,
                                                                           run](benchmark::State& state) {
      run(state, *shared);
    })->Unit(benchmark::kMillisecond);
  };
  add("", plan_with_trimtab);
  add("/twin", relabel_raw);
}

void register_drift(const Shape& shape, const char* drift_name, double drift) {
  const LoadMatrix before = test::lognormal_loads(shape.loads, 0.5, 7);
  PlanOptions options;
  options.num_groups = shape.groups;
  DeltaOptions delta;
  delta.within = 0.01;
  register_case({.name = std::string(shape.name) + ",drift:" + drift_name,
                 .before = before,
                 .after = test::drifted_loads(before, drift, 8),
                 .topology = Topology::make_uniform(shape.ranks, shape.nodes, shape.slots).value(),
                 .options = options,
                 .delta = delta});
}

void register_recorded() {
  const auto before = test::recorded_file("deepseek-v3_prefill_in1024.json");
  const auto after = test::recorded_file("deepseek-v3_decode_in1000out1000.json");
  if (!before || !after) return;
  PlanOptions anywhere;
  anywhere.locality = Locality::none;
  for (std::int32_t moves : {8, 16, 32, 64}) {
    DeltaOptions delta;
    delta.max_moves = moves;
    register_case({.name = "prefill-decode,max:" + std::to_string(moves),
                   .before = *before,
                   .after = *after,
                   .topology = Topology::make_uniform(32, 4, 288).value(),
                   .options = anywhere,
                   .delta = delta});
  }
}

void register_all() {
  for (const Shape& shape : shapes) {
    register_drift(shape, "0.05", 0.05);
    register_drift(shape, "0.2", 0.2);
  }
  register_recorded();
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) { return trimtab::bench::run_registered(argc, argv, trimtab::register_all); }
