// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/inproc.hpp>

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "moe/forward_runner.hpp"
#include "moe/gemm.hpp"
#include "moe/replay/replay_executor.hpp"
#include "moe/token_stream.hpp"
#include "registered_main.hpp"

namespace trimtab::bench {
namespace {

using moe::ModelConfig;

/// The model that `trimtab run` serves, on one rank: no message takes time, so what differs is the padding.
const ModelConfig model{};
constexpr std::int32_t num_slots = 36;
constexpr std::size_t max_tokens = 256;

/// One rank with everything that an executor works with.
struct OneRank {
  OneRank() {
    moe::use_one_gemm_thread();
    if (!memory.load(placement)) std::abort();
  }
  [[nodiscard]] std::unique_ptr<moe::ForwardRunner> make(bool replays_graphs) {
    const moe::ExecutorParts parts{
        .channel = *channel[0], .topology = topology, .weights = weights, .memory = memory, .clock = clock};
    return std::move(
        *moe::make_forward_runner(replays_graphs, {.config = model, .max_tokens = max_tokens}, parts));
  }

  Topology topology = *Topology::make_uniform(1, 1, num_slots);
  Placement placement = *Placement::identity(model.num_layers, num_slots, model.num_experts);
  RoutingTable table = *RoutingTable::compile(placement, topology, {Epoch{0}, 0});
  std::vector<std::unique_ptr<Transport>> channel = *make_inproc_transports(1);
  moe::ReplicatedWeights weights{model};
  moe::ExpertMemory memory{model, topology.slots_of(Rank{0})};
  SteadyClock clock;
  std::vector<float> bias = std::vector<float>(model.layers() * model.experts());
};

std::vector<float> serve(OneRank& rank, moe::ForwardRunner& runner, std::size_t tokens) {
  std::vector<float> states(tokens * model.width());
  moe::fill_tokens(model, Forward{0}, Rank{0}, 0, states);
  if (!runner.forward(Forward{0}, states, rank.bias, rank.table)) states.clear();
  return states;
}

/// Forwards of `tokens` by one runner. Outputs of both are compared.
void forward(benchmark::State& state, bool replays_graphs, std::size_t tokens) {
  OneRank rank;
  const auto runner = rank.make(replays_graphs);
  const auto other = rank.make(!replays_graphs);
  if (serve(rank, *runner, tokens) != serve(rank, *other, tokens))
    return state.SkipWithError("outputs differ");
  const std::int64_t padded = runner->replays().padded_rows;
  for (auto _ : state) benchmark::DoNotOptimize(serve(rank, *runner, tokens));
  state.counters["padded"] = static_cast<double>(padded);
}

/// Sizes that were recorded, and such that leave most padding.
void register_all() {
  for (const std::size_t tokens : {1U, 5U, 33U, 64U, 65U, 128U, 129U, 192U, 256U}) {
    const std::string name = "replay/" + std::to_string(tokens) + " tokens";
    benchmark::RegisterBenchmark(name.c_str(), [tokens](benchmark::State& state) {
      forward(state, true, tokens);
    })->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark((name + "/twin").c_str(), [tokens](benchmark::State& state) {
      forward(state, false, tokens);
    })->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::bench::register_all);
}
