// SPDX-License-Identifier: Apache-2.0
//
// Our planners beside each other, one thread, on the shapes that are usual in talk about expert balancing.
// The raw twin of a shape is DeepSeek's planner written down plainly; that of `trtllm` is TensorRT-LLM's with
// the heaps of the standard library. `deepseek` and the twin give the three tensors, the others a plan with
// its reports. peers_bench.py adds the peers' own Python on the same loads, which `--export=FOLDER` writes
// for it.
#include <trimtab/plan/compat.hpp>

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "plain.hpp"
#include "quality.hpp"
#include "registered_main.hpp"
#include "support/generated_loads.hpp"

namespace trimtab::bench {
namespace {

struct Shape {
  const char* name;
  test::LoadShape loads;
  EplbShape cluster;
};

constexpr Shape shapes[] = {
    {"58x256-288/32,groups:8,nodes:4", {58, 256}, {288, 8, 4, 32}},
    {"58x256-288/32", {58, 256}, {288, 1, 1, 32}},
    {"58x256-320/320", {58, 256}, {320, 1, 1, 320}},
    {"58x256-288/144", {58, 256}, {288, 1, 1, 144}},
    {"61x384-416/32", {61, 384}, {416, 1, 1, 32}},
    {"61x384-448/64", {61, 384}, {448, 1, 1, 64}},
    {"94x128-160/32", {94, 128}, {160, 1, 1, 32}},
    {"100x1024-1280/256", {100, 1024}, {1280, 1, 1, 256}},
    {"58x256-1152/128,groups:8,nodes:16", {58, 256}, {1152, 8, 16, 128}},
};

/// Native planner by effort: one line each.
struct Native {
  const char* name;
  PlanOptions options;
};

const Native natives[] = {
    {"native", {}},
    {"native-fast", {.effort = Effort::fast}},
};

LoadMatrix loads_of(const Shape& shape) { return test::lognormal_loads(shape.loads, 1.0, 7); }

Topology topology_of(const Shape& shape) {
  return Topology::make_uniform(shape.cluster.num_ranks, shape.cluster.num_nodes, shape.cluster.num_slots)
      .value();
}

/// Checks that every expert has a slot and fills the columns.
void show_quality(benchmark::State& state, const Shape& shape, std::vector<ExpertId> map) {
  const LoadMatrix loads = loads_of(shape);
  const auto placement =
      Placement::make(loads.num_layers(), shape.cluster.num_slots, loads.num_experts(), std::move(map));
  if (!placement) return state.SkipWithError(placement.error().message.c_str());
  const Quality quality = quality_of(*placement, loads, topology_of(shape));
  state.counters["imbalance"] = quality.imbalance;
  state.counters["duplicates"] = quality.duplicates;
  state.counters["moves"] = quality.moves;
}

using MakePlan = std::function<Result<Plan>(const LoadMatrix&, const Topology&)>;

void run_plan(benchmark::State& state, const Shape& shape, const MakePlan& make_plan) {
  const LoadMatrix loads = loads_of(shape);
  const Topology topology = topology_of(shape);
  Result<Plan> plan = make_plan(loads, topology);
  for (auto _ : state) {
    plan = make_plan(loads, topology);
    benchmark::DoNotOptimize(plan);
  }
  if (!plan) return state.SkipWithError(plan.error().message.c_str());
  std::vector<ExpertId> map;
  double bound = 0.0;
  for (const LayerReport& layer : plan->layers) {
    const auto row = plan->placement.layer(layer.layer);
    map.insert(map.end(), row.begin(), row.end());
    bound += layer.bound / loads.num_layers();
  }
  show_quality(state, shape, std::move(map));
  state.counters["bound"] = bound;
}

Result<EplbPlan> plan_deepseek(const Shape& shape, const LoadMatrix& loads) {
  SerialExecutor executor;
  return rebalance_experts(loads, shape.cluster, executor);
}

void run_deepseek(benchmark::State& state, const Shape& shape) {
  const LoadMatrix loads = loads_of(shape);
  Result<EplbPlan> plan = plan_deepseek(shape, loads);
  for (auto _ : state) {
    plan = plan_deepseek(shape, loads);
    benchmark::DoNotOptimize(plan);
  }
  if (!plan) return state.SkipWithError(plan.error().message.c_str());
  show_quality(state, shape, plan->physical_to_logical);
}

bool are_equal(const EplbPlan& a, const EplbPlan& b) {
  return a.max_copies == b.max_copies && a.physical_to_logical == b.physical_to_logical &&
         a.logical_to_physical == b.logical_to_physical && a.logical_count == b.logical_count;
}

void run_deepseek_twin(benchmark::State& state, const Shape& shape) {
  const LoadMatrix loads = loads_of(shape);
  EplbPlan plan;
  for (auto _ : state) {
    plan = rebalance_plainly(loads, shape.cluster);
    benchmark::DoNotOptimize(plan);
  }
  if (!are_equal(plan, plan_deepseek(shape, loads).value())) return state.SkipWithError("not our plan");
  show_quality(state, shape, plan.physical_to_logical);
}

Result<Plan> plan_compat(CompatPlanner planner, const Shape& shape, const LoadMatrix& loads,
                         const Topology& topology) {
  SerialExecutor executor;
  const PlanOptions options{.num_groups = shape.cluster.num_groups};
  return plan_like(planner, loads, topology, options, executor);
}

void run_trtllm_twin(benchmark::State& state, const Shape& shape) {
  const LoadMatrix loads = loads_of(shape);
  std::vector<ExpertId> map;
  for (auto _ : state) {
    map = plan_with_heaps(loads, shape.cluster);
    benchmark::DoNotOptimize(map);
  }
  const auto ours = plan_compat(CompatPlanner::trtllm, shape, loads, topology_of(shape));
  const auto theirs = Placement::make(loads.num_layers(), shape.cluster.num_slots, loads.num_experts(), map);
  if (!ours || !theirs || ours->placement != *theirs) return state.SkipWithError("not our plan");
  show_quality(state, shape, std::move(map));
}

void register_shape(const Shape& shape) {
  const auto add = [&shape](const std::string& who, auto run) {
    const std::string name = std::string("peers/") + shape.name + "/" + who;
    benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMillisecond);
  };
  for (const Native& native : natives) {
    PlanOptions options = native.options;
    options.num_groups = shape.cluster.num_groups;
    add(native.name, [&shape, options](benchmark::State& state) {
      run_plan(state, shape, [&](const LoadMatrix& loads, const Topology& topology) {
        SerialExecutor executor;
        return plan_rebalance(loads, topology, options, executor);
      });
    });
  }
  add("deepseek", [&shape](benchmark::State& state) { run_deepseek(state, shape); });
  add("twin", [&shape](benchmark::State& state) { run_deepseek_twin(state, shape); });
  for (const CompatPlanner planner : {CompatPlanner::trtllm, CompatPlanner::vllm}) {
    add(std::string(to_string(planner)), [&shape, planner](benchmark::State& state) {
      run_plan(state, shape, [&](const LoadMatrix& loads, const Topology& topology) {
        return plan_compat(planner, shape, loads, topology);
      });
    });
  }
  add("trtllm/twin", [&shape](benchmark::State& state) { run_trtllm_twin(state, shape); });
}

template <class T>
bool write_file(const std::string& path, std::span<const T> values) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool is_whole = std::fwrite(values.data(), sizeof(T), values.size(), file) == values.size();
  return std::fclose(file) == 0 && is_whole;
}

/// shapes.txt: name, layers, experts, slots, groups, nodes, ranks; and for line i: i.loads (float64) and
/// i.deepseek (int32), our physical_to_logical.
int export_to(const std::string& folder) {
  std::string lines;
  int i = 0;
  for (const Shape& shape : shapes) {
    const LoadMatrix loads = loads_of(shape);
    const auto& [slots, groups, nodes, ranks] = shape.cluster;
    lines += shape.name;
    for (std::int32_t number : {loads.num_layers(), loads.num_experts(), slots, groups, nodes, ranks}) {
      lines.append(" ").append(std::to_string(number));
    }
    lines += "\n";
    std::vector<double> values;
    for (LayerId layer : ids<LayerId>(loads.num_layers())) {
      values.insert(values.end(), loads.layer(layer).begin(), loads.layer(layer).end());
    }
    const std::string stem = folder + "/" + std::to_string(i++);
    const EplbPlan plan = plan_deepseek(shape, loads).value();
    if (!write_file<double>(stem + ".loads", values)) return 1;
    if (!write_file<ExpertId>(stem + ".deepseek", plan.physical_to_logical)) return 1;
  }
  return write_file<char>(folder + "/shapes.txt", lines) ? 0 : 1;
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  constexpr const char* export_option = "--export=";
  if (argc == 2 && std::strncmp(argv[1], export_option, std::strlen(export_option)) == 0) {
    return trimtab::bench::export_to(argv[1] + std::strlen(export_option));
  }
  return trimtab::bench::run_registered(argc, argv, [] {
    for (const auto& shape : trimtab::bench::shapes) trimtab::bench::register_shape(shape);
  });
}
