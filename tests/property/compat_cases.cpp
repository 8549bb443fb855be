// SPDX-License-Identifier: Apache-2.0
//
// Plans the cases that compat_differential.py sends, so that Python can compare them with the peers' own
// code. In, for each case: planner, layers, experts, slots, groups, nodes, ranks (int32), loads (float64).
// Out: physical_to_logical (int64), and for DeepSeek first max_copies (int64), then also logical_to_physical
// and logical_count (int64).
#include <trimtab/plan/compat.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace trimtab {
namespace {

enum class Asked : std::int32_t { deepseek_tensors = 0, vllm = 1, trtllm = 2 };

template <class T>
void write(const std::vector<T>& values) {
  if (std::fwrite(values.data(), sizeof(T), values.size(), stdout) != values.size()) std::exit(1);
}

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "compat_cases: %s\n", error.message.c_str());
  std::exit(1);
}

void answer_with_tensors(const LoadMatrix& loads, const EplbShape& shape) {
  SerialExecutor executor;
  const Result<EplbPlan> plan = rebalance_experts(loads, shape, executor);
  if (!plan) give_up(plan.error());
  write(std::vector<std::int32_t>{plan->max_copies});
  write(plan->physical_to_logical);
  write(plan->logical_to_physical);
  write(plan->logical_count);
}

void answer_with_map(CompatPlanner planner, const LoadMatrix& loads, const EplbShape& shape) {
  SerialExecutor executor;
  const auto topology = Topology::make_uniform(shape.num_ranks, shape.num_nodes, shape.num_slots);
  if (!topology) give_up(topology.error());
  const PlanOptions options{.num_groups = shape.num_groups};
  const Result<Plan> plan = plan_like(planner, loads, *topology, options, executor);
  if (!plan) give_up(plan.error());
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const auto row = plan->placement.layer(layer);
    write(std::vector<ExpertId>(row.begin(), row.end()));
  }
}

bool answer_next() {
  std::array<std::int32_t, 7> head{};
  if (std::fread(head.data(), sizeof head, 1, stdin) != 1) return false;
  const auto [asked, layers, experts, slots, groups, nodes, ranks] = head;
  std::vector<double> values(static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts));
  if (std::fread(values.data(), sizeof(double), values.size(), stdin) != values.size()) return false;
  const Result<LoadMatrix> loads = LoadMatrix::make(layers, experts, std::move(values));
  if (!loads) give_up(loads.error());
  const EplbShape shape{slots, groups, nodes, ranks};
  if (Asked{asked} == Asked::deepseek_tensors) answer_with_tensors(*loads, shape);
  if (Asked{asked} == Asked::vllm) answer_with_map(CompatPlanner::vllm, *loads, shape);
  if (Asked{asked} == Asked::trtllm) answer_with_map(CompatPlanner::trtllm, *loads, shape);
  std::fflush(stdout);
  return true;
}

}  // namespace
}  // namespace trimtab

int main() {
  while (trimtab::answer_next()) {
  }
  return 0;
}
