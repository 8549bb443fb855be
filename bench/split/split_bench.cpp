// SPDX-License-Identifier: Apache-2.0
//
// One layer's exact split per iteration, over the layers in turn. "cold": a solver prepared for the
// placement, no earlier solution. "fullest": the same without refinement
// below the fullest ranks. "warm": from the split of the loads before they drifted. The twin is a
// plain Dinic; LEMON's preflow and "even", which only reads loads and writes even shares, are in the table
// too.
#include <trimtab/plan/compat.hpp>
#include <trimtab/plan/planner.hpp>
#include <trimtab/split/split_solver.hpp>

#include "plain_dinic.hpp"
#include "registered_main.hpp"
#include "support/generated_loads.hpp"
#include "support/recorded_loads.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>

namespace trimtab::bench {
namespace {

using Loads = std::vector<std::int64_t>;

struct Shape {
  std::int32_t experts, slots, ranks, nodes;
};
constexpr Shape shapes[] = {{256, 288, 32, 4}, {256, 352, 32, 4}, {256, 432, 144, 18}, {1024, 1280, 256, 32}};

enum class Made { even, exact, deepseek };

/// One layer to be split: what was split before, and what is to be split now.
struct Layer {
  std::vector<ExpertId> row;
  Loads before, now;
  std::int64_t optimum = 0;
};

struct Scene {
  std::string name;
  std::int32_t num_experts;
  Topology topology;
  std::vector<Layer> layers;
};

LoadMatrix drifted(const LoadMatrix& loads, double sigma) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> drift(0.0, sigma);
  std::vector<double> values;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    for (double load : loads.layer(layer)) values.push_back(std::round(load * drift(random)));
  }
  return test::loads_of({loads.num_layers(), loads.num_experts()}, values);
}

Placement place(const LoadMatrix& loads, const Topology& topology, Made made) {
  SerialExecutor executor;
  if (made == Made::deepseek) {
    return plan_like(CompatPlanner::deepseek, loads, topology, {}, executor).value().placement;
  }
  const ShareMode shares = made == Made::exact ? ShareMode::exact : ShareMode::even;
  return plan_rebalance(loads, topology, {.shares = shares}, executor).value().placement;
}

Loads whole(std::span<const double> loads) {
  Loads numbers;
  for (double load : loads) numbers.push_back(std::llround(load));
  return numbers;
}

Scene make_scene(const Shape& shape, Made made, const std::string& what, const LoadMatrix& planned,
                 const LoadMatrix& before) {
  constexpr const char* names[] = {"even", "exact", "deepseek"};
  const std::string size =
      std::to_string(shape.experts) + "-" + std::to_string(shape.slots) + "-" + std::to_string(shape.ranks);
  Scene scene{size + " " + names[static_cast<std::size_t>(made)] + " " + what,
              shape.experts,
              Topology::make_uniform(shape.ranks, shape.nodes, shape.slots).value(),
              {}};
  const Placement placement = place(planned, scene.topology, made);
  const LoadMatrix now = drifted(before, 0.05);
  for (LayerId layer : ids<LayerId>(planned.num_layers())) {
    if (planned.is_dense(layer)) continue;
    const auto row = placement.layer(layer);
    scene.layers.push_back({{row.begin(), row.end()}, whole(before.layer(layer)), whole(now.layer(layer))});
    Layer& added = scene.layers.back();
    Loads assignments(added.row.size());
    added.optimum = make_dinic_split(row, shape.experts, scene.topology)->solve(added.now, assignments);
  }
  return scene;
}

std::int64_t max_load(const Scene& scene, const Layer& layer, const Loads& assignments) {
  Loads sums(layer.now.size(), 0);
  std::int64_t most = 0;
  for (Rank rank : ids<Rank>(scene.topology.num_ranks())) {
    std::int64_t load = 0;
    for (SlotId slot : scene.topology.slots_of(rank)) {
      load += assignments[slot.index()];
      sums[layer.row[slot.index()].index()] += assignments[slot.index()];
    }
    most = std::max(most, load);
  }
  return sums == layer.now ? most : -1;
}

/// `solve(i, assignments)` splits layer i.
void run(benchmark::State& state, const Scene& scene, const std::function<void(std::size_t, Loads&)>& solve) {
  Loads assignments(scene.layers[0].row.size());
  for (std::size_t i = 0; i < scene.layers.size(); ++i) {
    solve(i, assignments);
    if (max_load(scene, scene.layers[i], assignments) != scene.layers[i].optimum) {
      return state.SkipWithError("not a split of least largest load");
    }
  }
  std::size_t i = 0;
  for (auto _ : state) {
    solve(i, assignments);
    benchmark::DoNotOptimize(assignments.data());
    benchmark::ClobberMemory();
    if (++i == scene.layers.size()) i = 0;
  }
}

std::vector<SplitSolver> make_solvers(const Scene& scene) {
  std::vector<SplitSolver> solvers;
  for (const Layer& layer : scene.layers) {
    solvers.push_back(SplitSolver::make(layer.row, scene.num_experts, scene.topology).value());
  }
  return solvers;
}

void split_cold(benchmark::State& state, const Scene& scene, SplitDepth depth) {
  auto solvers = make_solvers(scene);
  run(state, scene, [&](std::size_t i, Loads& assignments) {
    if (!solvers[i].solve(scene.layers[i].now, assignments, depth)) state.SkipWithError("refused");
  });
}

void split_warm(benchmark::State& state, const Scene& scene) {
  auto solvers = make_solvers(scene);
  std::vector<Loads> earlier;
  for (std::size_t i = 0; i < solvers.size(); ++i) {
    earlier.emplace_back(scene.layers[i].row.size());
    if (!solvers[i].solve(scene.layers[i].before, earlier.back())) state.SkipWithError("refused");
  }
  run(state, scene, [&](std::size_t i, Loads& assignments) {
    if (!solvers[i].solve_from(earlier[i], scene.layers[i].now, assignments)) state.SkipWithError("refused");
  });
}

void split_plainly(benchmark::State& state, const Scene& scene, decltype(&make_dinic_split) make) {
  std::vector<std::unique_ptr<PlainSplit>> solvers;
  for (const Layer& layer : scene.layers)
    solvers.push_back(make(layer.row, scene.num_experts, scene.topology));
  run(state, scene,
      [&](std::size_t i, Loads& assignments) { solvers[i]->solve(scene.layers[i].now, assignments); });
}

/// What no split can do without: every load read, every slot written.
void share_evenly(benchmark::State& state, const Scene& scene) {
  std::vector<std::vector<std::int32_t>> copies;
  for (const Layer& layer : scene.layers) {
    copies.emplace_back(layer.now.size(), 0);
    for (ExpertId expert : layer.row) ++copies.back()[expert.index()];
  }
  Loads assignments(scene.layers[0].row.size());
  std::size_t i = 0;
  for (auto _ : state) {
    const Layer& layer = scene.layers[i];
    for (std::size_t s = 0; s < assignments.size(); ++s) {
      const std::size_t expert = layer.row[s].index();
      assignments[s] = layer.now[expert] / copies[i][expert];
    }
    benchmark::DoNotOptimize(assignments.data());
    benchmark::ClobberMemory();
    if (++i == scene.layers.size()) i = 0;
  }
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& measure) {
  benchmark::RegisterBenchmark(name.c_str(), measure)->Unit(benchmark::kMicrosecond);
}

/// One name for each measure of a scene; the plain Dinic is the twin of all.
void add_scene(const Scene& scene) {
  const std::string base = "split/" + scene.name;
  add(base + "/cold", [&](benchmark::State& state) { split_cold(state, scene, SplitDepth::all); });
  add(base + "/fullest", [&](benchmark::State& state) { split_cold(state, scene, SplitDepth::fullest); });
  add(base + "/warm", [&](benchmark::State& state) { split_warm(state, scene); });
  add(base + "/twin", [&](benchmark::State& state) { split_plainly(state, scene, make_dinic_split); });
#ifdef TRIMTAB_BENCH_WITH_LEMON
  add(base + "/lemon", [&](benchmark::State& state) { split_plainly(state, scene, make_lemon_split); });
#endif
  add(base + "/even", [&](benchmark::State& state) { share_evenly(state, scene); });
}

std::vector<Scene> make_scenes() {
  std::vector<Scene> scenes;
  const auto prefill = test::recorded_file("deepseek-v3_prefill_in1024.json");
  const auto decode = test::recorded_file("deepseek-v3_decode_in1000out1000.json");
  for (const Shape& shape : shapes) {
    const auto loads = test::lognormal_loads({shape.experts > 256 ? 6 : 16, shape.experts}, 0.5, 7);
    for (Made made : {Made::even, Made::exact, Made::deepseek}) {
      scenes.push_back(make_scene(shape, made, "drift 0.05", loads, loads));
    }
    scenes.push_back(make_scene(shape, Made::exact, "drift 0.2", loads, drifted(loads, 0.2)));
    if (shape.experts != 256 || !prefill || !decode) continue;
    scenes.push_back(make_scene(shape, Made::exact, "recorded drift 0.05", *prefill, *prefill));
    scenes.push_back(make_scene(shape, Made::exact, "recorded prefill to decode", *prefill, *decode));
  }
  return scenes;
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  const auto scenes = trimtab::bench::make_scenes();
  return trimtab::bench::run_registered(argc, argv, [&scenes] {
    for (const auto& scene : scenes) trimtab::bench::add_scene(scene);
  });
}
