// SPDX-License-Identifier: Apache-2.0
//
// One migration step between two in-process ranks on two threads, beside the copies that it cannot do
// without: each moved bundle goes once into staging, and from there once into its slot. Engine and twin take
// turns, so that what else the machine does meets both alike.

#include "registered_main.hpp"
#include "two_ranks.hpp"
#include "two_threads.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace trimtab::bench {
namespace {

/// The copies alone, with as many threads over as many bytes.
class Copies {
 public:
  explicit Copies(std::size_t bundle_bytes) : bundle_bytes_(bundle_bytes) {
    for (auto& slots : slots_) slots.assign(bundles_each_way * bundle_bytes, std::byte{1});
    for (auto& staging : staging_) staging.assign(bundles_each_way * bundle_bytes, std::byte{2});
  }

  /// Slot to staging, each thread into the memory of the other.
  double stage(TwoThreads& threads) {
    return threads.run([&](std::size_t rank) {
      for (std::size_t i = 0; i < bundles_each_way; ++i)
        copy(&staging_[1 - rank][i * bundle_bytes_], &slots_[rank][i * bundle_bytes_]);
    });
  }
  /// Staging to slot, inside a rank.
  double commit(TwoThreads& threads) {
    return threads.run([&](std::size_t rank) {
      for (std::size_t i = 0; i < bundles_each_way; ++i)
        copy(&slots_[rank][i * bundle_bytes_], &staging_[rank][i * bundle_bytes_]);
    });
  }
  [[nodiscard]] bool is_right() const { return slots_[0] == staging_[1] && slots_[1] == staging_[0]; }

 private:
  void copy(std::byte* to, const std::byte* from) const {
    std::memcpy(to, from, bundle_bytes_);
    benchmark::ClobberMemory();
  }

  std::size_t bundle_bytes_;
  std::array<std::vector<std::byte>, 2> slots_;
  std::array<std::vector<std::byte>, 2> staging_;
};

/// Shares of the twin's speed, one for each pair of neighbours in time.
void report_shares(benchmark::State& state, std::vector<double> shares) {
  std::ranges::sort(shares);
  state.counters["of_twin"] = shares[shares.size() / 2];
  state.counters["of_twin_low"] = shares[shares.size() / 4];
  state.counters["of_twin_high"] = shares[shares.size() * 3 / 4];
}

enum class Part { staging, step };

/// All memory has been touched, as in a service that has run for a while.
constexpr int num_warm_up = 2;

void engine(benchmark::State& state, ExpertShape shape, Part part) {
  TwoThreads threads;
  TwoRanks ranks(shape);
  Copies twin(shape.bundle_bytes());
  for (int i = 0; i < num_warm_up; ++i) {
    ranks.run_step(threads);
    twin.stage(threads);
    twin.commit(threads);
  }
  std::vector<double> shares;
  for (auto _ : state) {
    const TwoRanks::Times times = ranks.run_step(threads);
    const double seconds = part == Part::step ? times.step : times.staging;
    const double staging = twin.stage(threads);
    const double commit = twin.commit(threads);
    shares.push_back((part == Part::step ? staging + commit : staging) / seconds);
    state.SetIterationTime(seconds);
  }
  if (!ranks.is_right() || !twin.is_right()) state.SkipWithError("a slot holds wrong bytes");
  report_shares(state, std::move(shares));
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * bundles_each_way * shape.bundle_bytes()) *
                          state.iterations());
}

void copies(benchmark::State& state, ExpertShape shape, Part part) {
  TwoThreads threads;
  Copies twin(shape.bundle_bytes());
  for (int i = 0; i < num_warm_up; ++i) {
    twin.stage(threads);
    twin.commit(threads);
  }
  for (auto _ : state) {
    const double staging = twin.stage(threads);
    const double commit = part == Part::step ? twin.commit(threads) : 0.0;
    state.SetIterationTime(staging + commit);
  }
  if (part == Part::step && !twin.is_right()) state.SkipWithError("the copy differs");
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * bundles_each_way * shape.bundle_bytes()) *
                          state.iterations());
}

/// A forward without a program.
void idle(benchmark::State& state) {
  TwoRanks ranks({64, 64});
  for (auto _ : state) ranks.advance_idle();
}

struct Called {
  virtual ~Called() = default;
  virtual void call() {}
};

void virtual_call(benchmark::State& state) {
  const std::unique_ptr<Called> called = std::make_unique<Called>();
  Called* pointer = called.get();
  for (auto _ : state) {
    benchmark::DoNotOptimize(pointer);
    pointer->call();
  }
}

void register_pair(const std::string& name, ExpertShape shape, Part part) {
  for (const bool is_twin : {false, true}) {
    benchmark::RegisterBenchmark(
        (name + (is_twin ? "/twin" : "")).c_str(),
        [=](benchmark::State& state) { is_twin ? copies(state, shape, part) : engine(state, shape, part); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

void register_benchmarks() {
  for (const auto& [size, shape] :
       {std::pair("4 MB", ExpertShape{2048, 704}), std::pair("15 MB", ExpertShape{5120, 1024}),
        std::pair("44 MB", ExpertShape{7168, 2048})}) {
    register_pair(std::string("migrate/staging of 8 bundles/") + size, shape, Part::staging);
    register_pair(std::string("migrate/step of 8 bundles/") + size, shape, Part::step);
  }
  benchmark::RegisterBenchmark("migrate/idle forward", idle);
  benchmark::RegisterBenchmark("migrate/idle forward/twin", virtual_call);
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::bench::register_benchmarks);
}
