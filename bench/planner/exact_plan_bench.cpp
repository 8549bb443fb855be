// SPDX-License-Identifier: Apache-2.0
//
// Time and quality of plans for the exact split, one thread, beside a twin that plans for even shares (for
// stale plans: DeepSeek's planner). Columns, means over layers: exact, of the split as good as it can be;
// exact_worst, of the worst layer; even, under even shares; planned, under even shares for what was planned;
// bound. With several recorded files each is that of the worst file, with draws of drift their mean.
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/compat.hpp>
#include <trimtab/plan/planner.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "plan/exact_imbalance.hpp"
#include "registered_main.hpp"
#include "support/drifting_loads.hpp"
#include "support/generated_loads.hpp"
#include "support/recorded_loads.hpp"

namespace trimtab {
namespace {

enum class Planner { exact, even, deepseek };

struct Case {
  std::string name;
  std::vector<LoadMatrix> planned_for;
  std::vector<LoadMatrix> used_under;
  Topology topology;
  std::int32_t num_groups = 1;
  double allowed = 2.0;    ///< Of `exact`, for Planner::exact.
  bool are_draws = false;  ///< What it is used under: the mean counts, not the worst.
};

struct Figure {
  double mean = 0.0;
  double worst = 0.0;
};

template <class Measure>
Figure measure(std::span<const LoadMatrix> all, const Placement& placement, bool are_draws,
               Measure imbalance) {
  Figure figure;
  double means = 0.0;
  for (const LoadMatrix& loads : all) {
    double sum = 0.0;
    double layers = 0.0;
    for (LayerId layer : ids<LayerId>(loads.num_layers())) {
      if (loads.is_dense(layer)) continue;
      const double one = imbalance(loads.layer(layer), placement.layer(layer));
      figure.worst = std::max(figure.worst, one);
      sum += one;
      layers += 1.0;
    }
    figure.mean = std::max(figure.mean, sum / layers);
    means += sum / layers / static_cast<double>(all.size());
  }
  if (are_draws) figure.mean = means;
  return figure;
}

double measure_even(std::span<const LoadMatrix> all, const Placement& placement, const Case& given) {
  return measure(all, placement, given.are_draws,
                 [&](LayerLoads loads, Row row) {
                   return compute_imbalance(compute_rank_loads(loads, row, given.topology), given.topology)
                       .max_over_mean();
                 })
      .mean;
}

Result<Plan> plan_with(Planner planner, const Case& given) {
  SerialExecutor executor;
  PlanOptions options;
  options.num_groups = given.num_groups;
  if (planner == Planner::deepseek) {
    return plan_like(CompatPlanner::deepseek, given.planned_for.front(), given.topology, options, executor);
  }
  options.shares = planner == Planner::exact ? ShareMode::exact : ShareMode::even;
  return plan_rebalance(given.planned_for, given.topology, options, executor);
}

void run(benchmark::State& state, Planner planner, const Case& given) {
  Result<Plan> plan = plan_with(planner, given);
  for (auto _ : state) {
    plan = plan_with(planner, given);
    benchmark::DoNotOptimize(plan);
  }
  if (!plan) return state.SkipWithError(plan.error().message.c_str());
  if (!check_live(plan->placement, given.topology)) return state.SkipWithError("an expert has no live slot");
  const Figure exact =
      measure(given.used_under, plan->placement, given.are_draws,
              [&](LayerLoads loads, Row row) { return exact_imbalance(loads, row, given.topology); });
  if (planner == Planner::exact && exact.mean > given.allowed) state.SkipWithError("above what is allowed");
  state.counters["exact"] = exact.mean;
  state.counters["exact_worst"] = exact.worst;
  state.counters["even"] = measure_even(given.used_under, plan->placement, given);
  state.counters["planned"] = measure_even(given.planned_for, plan->placement, given);
  double bound = 0.0;
  for (const LayerReport& layer : plan->layers) bound += layer.is_dense ? 0.0 : layer.bound;
  const auto layers = std::count_if(plan->layers.begin(), plan->layers.end(),
                                    [](const LayerReport& layer) { return !layer.is_dense; });
  state.counters["bound"] = bound / static_cast<double>(layers);
}

void register_case(Case given, Planner twin = Planner::even) {
  const auto shared = std::make_shared<const Case>(std::move(given));
  const auto add = [&](const char* who, Planner planner) {
    benchmark::RegisterBenchmark(("exact-plan/" + shared->name + who).c_str(), [shared, planner](
                                                                                   benchmark::State& state) {
      run(state, planner, *shared);
    })->Unit(benchmark::kMillisecond);
  };
  add("", Planner::exact);
  add("/twin", twin);
}

struct Shape {
  const char* name;
  test::LoadShape loads;
  std::int32_t slots, ranks, nodes, groups;
};

constexpr Shape shapes[] = {
    {"256-288/32", {8, 256}, 288, 32, 4, 1},       {"256-288/32,groups:8,nodes:4", {8, 256}, 288, 32, 4, 8},
    {"256-320/320", {8, 256}, 320, 320, 1, 1},     {"256-288/144", {8, 256}, 288, 144, 1, 1},
    {"384-448/64", {8, 384}, 448, 64, 1, 1},       {"128-160/32", {8, 128}, 160, 32, 1, 1},
    {"1024-1280/256", {2, 1024}, 1280, 256, 1, 1},
};

void register_shape(const Shape& shape) {
  const auto topology = Topology::make_uniform(shape.ranks, shape.nodes, shape.slots).value();
  const auto add = [&](const std::string& name, const LoadMatrix& loads) {
    register_case({std::string(shape.name) + "," + name, {loads}, {loads}, topology, shape.groups, 4.0});
  };
  for (const char* sigma : {"0.25", "0.5", "1"}) {
    add(std::string("lognormal:") + sigma, test::lognormal_loads(shape.loads, std::stod(sigma), 3));
  }
  for (const char* exponent : {"0.5", "0.8", "1", "1.2"}) {
    add(std::string("zipf:") + exponent, test::zipf_loads(shape.loads, std::stod(exponent), 3));
  }
}

void register_drift(const char* name, double drift, double allowed) {
  const LoadMatrix loads = test::lognormal_loads({58, 256}, 0.5, 7);
  std::vector<LoadMatrix> drifted;
  for (std::uint64_t seed = 0; seed < 4; ++seed) drifted.push_back(test::drifted_loads(loads, drift, seed));
  register_case({std::string("58x256-288/32,stale:") + name,
                 {loads},
                 std::move(drifted),
                 Topology::make_uniform(32, 1, 288).value(),
                 1,
                 allowed,
                 true},
                Planner::deepseek);
}

void register_recorded() {
  std::vector<LoadMatrix> all;
  for (const auto& file : test::recorded_loads("deepseek-v3_")) all.push_back(test::read_loads(file));
  if (all.empty()) return;
  for (const auto& [slots, allowed] : {std::pair(288, 1.01), {320, 1.01}, {352, 1.02}, {384, 1.01}}) {
    register_case({"deepseek-v3,all-files," + std::to_string(slots) + "/32", all, all,
                   Topology::make_uniform(32, 1, slots).value(), 1, allowed});
  }
}

void register_all() {
  register_recorded();
  register_drift("0.05", 0.05, 1.002);
  register_drift("0.2", 0.2, 1.03);
  for (const Shape& shape : shapes) register_shape(shape);
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) { return trimtab::bench::run_registered(argc, argv, trimtab::register_all); }
