// SPDX-License-Identifier: Apache-2.0
//
// Building a program from one random placement to another, beside the least that it takes: one pass over both
// placements that lists the slots which differ.

#include <trimtab/migrate/program.hpp>

#include "registered_main.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace trimtab {
namespace {

struct Size {
  std::int32_t layers;
  std::int32_t experts;
  std::int32_t slots;
  std::int32_t ranks;
  std::int32_t nodes;
  std::size_t budget_bundles;  ///< Staging per rank.
};

constexpr std::size_t bundle_bytes = 44U << 20;

Placement make_placement(const Size& size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<ExpertId> map;
  for (std::int32_t layer = 0; layer < size.layers; ++layer) {
    const std::size_t begin = map.size();
    for (std::int32_t s = 0; s < size.slots; ++s) {
      const auto any = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(size.experts));
      map.push_back(ExpertId{s < size.experts ? s : any});
    }
    for (std::size_t i = map.size() - begin; i > 1; --i)
      std::swap(map[begin + i - 1], map[begin + random() % i]);
  }
  return *Placement::make(size.layers, size.slots, size.experts, std::move(map));
}

/// Every step applied to the map in turn; the same as `to` at the end.
bool leads_to(const Program& program, const Placement& from, const Placement& to) {
  std::vector<std::vector<ExpertId>> rows;
  for (LayerId layer : ids<LayerId>(from.num_layers()))
    rows.emplace_back(from.layer(layer).begin(), from.layer(layer).end());
  for (const Step& step : program.steps) {
    for (const Move& move : step.moves) rows[move.layer.index()][move.destination.index()] = move.expert;
  }
  for (LayerId layer : ids<LayerId>(to.num_layers())) {
    if (!std::equal(rows[layer.index()].begin(), rows[layer.index()].end(), to.layer(layer).begin()))
      return false;
  }
  return true;
}

void build(benchmark::State& state, const Size& size) {
  const Placement from = make_placement(size, 1);
  const Placement to = make_placement(size, 2);
  const Topology topology = *Topology::make_uniform(size.ranks, size.nodes, size.slots);
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(size.layers), bundle_bytes);
  const ProgramInput input{Epoch{1}, from, to, topology, bytes, size.budget_bundles * bundle_bytes};
  Program program;
  for (auto _ : state) program = *build_program(input);
  if (!leads_to(program, from, to)) state.SkipWithError("the program does not lead to the new placement");
  if (program.cost.bytes_moved != program.cost.bytes_moved_bound)
    state.SkipWithError("bytes beyond the bound");
  state.counters["steps"] = static_cast<double>(program.steps.size());
  state.counters["exchanges"] = static_cast<double>(program.cost.exchanges_forced);
}

void plain_diff(benchmark::State& state, const Size& size) {
  const Placement from = make_placement(size, 1);
  const Placement to = make_placement(size, 2);
  std::vector<Move> moves;
  for (auto _ : state) {
    moves.clear();
    for (LayerId layer : ids<LayerId>(size.layers)) {
      for (SlotId slot : ids<SlotId>(size.slots)) {
        const ExpertId expert = to.expert_at(layer, slot);
        if (expert == from.expert_at(layer, slot)) continue;
        moves.push_back({layer, expert, from.replicas(layer, expert).front(), slot});
      }
    }
    benchmark::DoNotOptimize(moves.data());
  }
  if (moves.empty()) state.SkipWithError("nothing differs");
}

void register_size(const std::string& name, const Size& size) {
  const std::string full = "program/" + name;
  benchmark::RegisterBenchmark(full.c_str(), build, size)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((full + "/twin").c_str(), plain_diff, size)->Unit(benchmark::kMillisecond);
}

void register_benchmarks() {
  register_size("61 x 256 on 320 ranks", {61, 256, 320, 320, 40, 64});
  register_size("61 x 256 on 320 ranks, one bundle", {61, 256, 320, 320, 40, 1});
  register_size("61 x 256 on 32 ranks, one bundle", {61, 256, 288, 32, 4, 1});
  register_size("100 x 1024 on 1024 ranks", {100, 1024, 1024, 1024, 128, 100});
  register_size("100 x 1024 in 2048 slots on 1024 ranks, one bundle", {100, 1024, 2048, 1024, 128, 1});
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::register_benchmarks);
}
