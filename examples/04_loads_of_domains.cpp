// SPDX-License-Identifier: Apache-2.0
// What a model's experts were asked for, token by token, in files: each domain of traffic is counted, a
// placement is planned for the first, and the others are served by it, with even shares and with the best
// there are.
//
//     example_04_loads_of_domains examples/data/*.trace

#include <trimtab/plan/planner.hpp>
#include <trimtab/split/split_plan.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace trimtab;

namespace {

constexpr std::int32_t num_ranks = 8;
constexpr std::int32_t num_slots = 40;

/// Assignments by layer and expert of a trace (docs/formats/trace.md) of up to 256 experts.
Result<LoadMatrix> count_trace(const std::string& path) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file) return failure(std::move(file));
  const SafetensorsTensor* ids = file->find("topk_ids");  // U8, [tokens][layers][top_k]
  const auto said = file->metadata().find("experts");
  std::int32_t num_experts = 0;
  if (said != file->metadata().end())
    std::from_chars(said->second.data(), said->second.data() + said->second.size(), num_experts);
  if (ids == nullptr || ids->type != SafetensorsType::u8 || ids->shape.size() != 3 || num_experts < 1)
    return failure(Errc::invalid_argument, path + ": no trace of up to 256 experts");
  const std::size_t layers = ids->shape[1];
  const std::size_t top_k = ids->shape[2];
  const auto experts = static_cast<std::size_t>(num_experts);
  std::vector<double> loads(layers * experts);
  const std::span<const std::byte> choices = file->bytes(*ids);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto expert = std::to_integer<std::size_t>(choices[i]);
    if (expert >= experts) return failure(Errc::invalid_argument, path + ": an expert that there is not");
    loads[i / top_k % layers * experts + expert] += 1.0;
  }
  return LoadMatrix::make(static_cast<std::int32_t>(layers), num_experts, std::move(loads));
}

/// Means over layers.
struct Served {
  double even = 0.0;
  double exact = 0.0;
};

Result<Served> serve(const LoadMatrix& loads, const Placement& placement, const Topology& ranks) {
  SerialExecutor executor;
  Result<SplitPlan> split = solve_split(loads, placement, ranks, {}, executor);
  if (!split) return failure(std::move(split));
  Served served;
  for (const LayerSplit& layer : split->layers) {
    served.even += layer.even / loads.num_layers();
    served.exact += layer.exact / loads.num_layers();
  }
  return served;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) return fail("no traces are named");
  const auto ranks = Topology::make_uniform(num_ranks, 1, num_slots);
  const auto planned_for = count_trace(paths[0]);
  if (!planned_for) return fail(planned_for.error().message);
  SerialExecutor executor;
  const auto plan = plan_rebalance(*planned_for, *ranks, {}, executor);
  if (!plan) return fail(plan.error().message);

  double best = 0.0;
  bool suits_its_own_best = true;
  for (const std::string& path : paths) {
    const auto loads = count_trace(path);
    if (!loads) return fail(loads.error().message);
    const auto served = serve(*loads, plan->placement, *ranks);
    if (!served) return fail(served.error().message);
    std::printf("planned for %s, serving %s: imbalance %.3f with even shares, %.3f with the best\n",
                paths[0].c_str(), path.c_str(), served->even, served->exact);
    if (best == 0.0) best = served->even;
    suits_its_own_best &= best <= served->even && served->exact <= served->even;
  }
  return suits_its_own_best ? 0 : 1;
}
