// SPDX-License-Identifier: Apache-2.0
//
// Time and quality of pack_groups, one thread, beside a raw twin: heaviest first in plain loops. Columns:
// over_bound, mean of pressure / bound - 1 over the cases; proven, share of them with a proof of optimality.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "plan/group.hpp"
#include "registered_main.hpp"

namespace trimtab {
namespace {

using Loads = std::vector<double>;

enum class Kind { skewed, nearly_equal };

struct Case {
  const char* name;
  std::size_t groups, nodes;
  Kind kind = Kind::skewed;
  double fastest = 1.0;  ///< Speeds from 1 to this.
};

constexpr Case cases[] = {
    {"8/4", 8, 4},
    {"8/2", 8, 2},
    {"16/8", 16, 8},
    {"16/4", 16, 4},
    {"16/2", 16, 2},
    {"12/3", 12, 3},
    {"15/5", 15, 5},
    {"8/4,nearly-equal", 8, 4, Kind::nearly_equal},
    {"16/4,nearly-equal", 16, 4, Kind::nearly_equal},
    {"16/2,nearly-equal", 16, 2, Kind::nearly_equal},
    {"15/5,nearly-equal", 15, 5, Kind::nearly_equal},
    {"8/4,uneven-speeds", 8, 4, Kind::skewed, 1.5},
    {"16/8,uneven-speeds", 16, 8, Kind::skewed, 1.5},
    {"16/4,uneven-speeds", 16, 4, Kind::skewed, 1.5},
    {"16/4,nearly-equal,uneven-speeds", 16, 4, Kind::nearly_equal, 1.5},
    {"32/4", 32, 4},
    {"64/8", 64, 8},
    {"64/16", 64, 16},
};

constexpr std::size_t num_draws = 64;

std::vector<Loads> draw(const Case& what) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> skewed(10.0, 0.4);
  std::uniform_real_distribution<double> nearly_equal(1e6, 1e6 + 1.0);
  std::vector<Loads> drawn(num_draws, Loads(what.groups));
  for (Loads& loads : drawn) {
    for (double& load : loads) load = what.kind == Kind::skewed ? skewed(random) : nearly_equal(random);
  }
  return drawn;
}

Loads speeds_of(const Case& what) {
  Loads speeds(what.nodes);
  for (std::size_t n = 0; n < what.nodes; ++n) {
    speeds[n] = 1.0 + (what.fastest - 1.0) * static_cast<double>(n) / static_cast<double>(what.nodes - 1);
  }
  return speeds;
}

double pressure_of(std::span<const NodeId> node_of, const Loads& groups, const Loads& speeds) {
  Loads load(speeds.size(), 0.0);
  for (std::size_t g = 0; g < groups.size(); ++g) load[node_of[g].index()] += groups[g];
  double worst = 0.0;
  for (std::size_t n = 0; n < speeds.size(); ++n) worst = std::max(worst, load[n] / speeds[n]);
  return worst;
}

/// The raw twin.
std::vector<NodeId> pack_plainly(const Loads& groups, const Loads& speeds) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return groups[a] > groups[b]; });
  std::vector<NodeId> node_of(groups.size());
  Loads load(speeds.size(), 0.0);
  std::vector<std::size_t> room(speeds.size(), groups.size() / speeds.size());
  for (std::size_t g : order) {
    std::size_t best = speeds.size();
    for (std::size_t n = 0; n < speeds.size(); ++n) {
      if (room[n] > 0 && (best == speeds.size() || load[n] / speeds[n] < load[best] / speeds[best])) best = n;
    }
    load[best] += groups[g];
    --room[best];
    node_of[g] = NodeId{static_cast<NodeId::rep>(best)};
  }
  return node_of;
}

void pack_with_trimtab(benchmark::State& state, const Case& what) {
  const std::vector<Loads> drawn = draw(what);
  const Loads speeds = speeds_of(what);
  double over = 0.0;
  double proven = 0.0;
  for (const Loads& loads : drawn) {
    const GroupPacking packing = pack_groups(loads, speeds);
    over += pressure_of(packing.node_of_group, loads, speeds) / packing.bound - 1.0;
    proven += packing.is_optimal ? 1.0 : 0.0;
  }
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(pack_groups(drawn[i++ % num_draws], speeds));
  state.counters["over_bound"] = over / num_draws;
  state.counters["proven"] = proven / num_draws;
}

void pack_raw(benchmark::State& state, const Case& what) {
  const std::vector<Loads> drawn = draw(what);
  const Loads speeds = speeds_of(what);
  double over = 0.0;
  for (const Loads& loads : drawn) {
    over += pressure_of(pack_plainly(loads, speeds), loads, speeds) / pack_groups(loads, speeds).bound - 1.0;
  }
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(pack_plainly(drawn[i++ % num_draws], speeds));
  state.counters["over_bound"] = over / num_draws;
}

void register_all() {
  for (const Case& what : cases) {
    const auto add = [&](const char* who, auto run) {
      benchmark::RegisterBenchmark((std::string("groups/") + what.name + who).c_str(),
                                   [&what, run](benchmark::State& state) { run(state, what); })
          ->Unit(benchmark::kMicrosecond);
    };
    add("", pack_with_trimtab);
    add("/twin", pack_raw);
  }
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) { return trimtab::bench::run_registered(argc, argv, trimtab::register_all); }
