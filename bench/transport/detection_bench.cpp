// SPDX-License-Identifier: Apache-2.0
//
// How long until a rank that is gone is known to be: from the signal that ends or stops its process to the
// last survivor that has to find out by itself. Four processes over ucx, with heartbeats in the background
// and their default options; the signal comes at a random moment between two beats. Beside a killed rank
// stands what a plain connection to it tells. Each time is that of a group of ranks of its own, and counts
// only if all judge right what happened, and suspect nobody else. Of ten repetitions, p95 is the longest.

#include "fault_group.hpp"
#include "registered_main.hpp"

#include <trimtab/transport/liveness.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>

namespace trimtab::bench {
namespace {

/// Between one and two beats after all have met.
void await_a_random_moment(Clock::duration period) {
  static std::minstd_rand random(1);
  std::this_thread::sleep_for(period + period * static_cast<long>(random() % 1000) / 1000);
}

void measure(benchmark::State& state, const RankFault& fault) {
  const Clock::duration period = HeartbeatOptions{}.period;
  for (auto _ : state) {
    FaultGroup group(fault);
    if (const Status met = group.await_start(); !met) return state.SkipWithError(met.error().message.c_str());
    await_a_random_moment(period);
    const Result<Clock::duration> noticed = group.signal_and_await();
    if (!noticed) return state.SkipWithError(noticed.error().message.c_str());
    const std::chrono::duration<double> time = *noticed;
    state.SetIterationTime(time.count());
    state.counters["heartbeats"] = time / std::chrono::duration<double>(period);
  }
}

void measure_connection(benchmark::State& state) {
  for (auto _ : state) {
    const auto noticed = time_until_connection_ends();
    if (!noticed) return state.SkipWithError(noticed.error().message.c_str());
    state.SetIterationTime(std::chrono::duration<double>(*noticed).count());
  }
}

template <class Run>
void add(const std::string& name, const Run& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->ComputeStatistics("max",
                          [](const std::vector<double>& all) { return *std::ranges::max_element(all); });
}

void register_all() {
  const auto of = [](const RankFault& fault) {
    return [fault](benchmark::State& state) { measure(state, fault); };
  };
  add("detection/killed", of({Rank{2}, SIGKILL}));
  add("detection/killed/twin", measure_connection);
  add("detection/killed lowest", of({Rank{0}, SIGKILL}));
  add("detection/killed lowest/twin", measure_connection);
  add("detection/stopped", of({Rank{2}, SIGSTOP}));
  add("detection/stopped lowest", of({Rank{0}, SIGSTOP}));
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::bench::register_all);
}
