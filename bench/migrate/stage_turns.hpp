// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "two_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::bench {

/// What two processes do together around a measured stretch.
struct Together {
  std::function<void()> barrier;
  std::function<double(double)> slowest;  ///< Of both ranks' seconds; collective.
};

/// This process's rank of a service of two.
class StageRank {
 public:
  StageRank(ExpertShape shape, std::unique_ptr<Transport> channel, const Together& together)
      : shape_(shape), together_(together) {
    rank_ = std::make_unique<BenchRank>(shape, topology_.slots_of(channel->rank()), topology_);
    EngineOptions options;
    options.staging_budget_bytes = budget();
    options.deadline = std::chrono::minutes(1);  // A busy machine must not end a step.
    rank_->make_engine(options, std::move(channel), topology_, clock_);
  }

  /// Seconds until both have voted.
  double run_step() {
    const Engine& engine = rank_->engine();
    const std::vector<std::size_t> bytes{shape_.bundle_bytes()};
    const Program program =
        *build_program({engine.health().epoch, engine.placement(), engine.placement() == here ? there : here,
                        topology_, bytes, budget()});
    together_.barrier();
    const auto begun = std::chrono::steady_clock::now();
    rank_->run(program);
    return together_.slowest(std::chrono::duration<double>(rank_->voted() - begun).count());
  }
  [[nodiscard]] bool is_right() const { return rank_->is_right(); }

 private:
  [[nodiscard]] std::size_t budget() const { return bundles_each_way * (shape_.bundle_bytes() + 64); }

  ExpertShape shape_;
  const Together& together_;
  Topology topology_ = *Topology::make_uniform(2, 1, 2 * slots_per_rank);
  SteadyClock clock_;
  std::unique_ptr<BenchRank> rank_;
};

inline std::string stage_row(const std::string& name, std::vector<double> seconds, ExpertShape shape,
                             const std::string& counters) {
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const double bytes = static_cast<double>(2 * bundles_each_way * shape.bundle_bytes());
  return fmt::format(
      R"({{"name": "{}", "median_ns": {}, "p95_ns": {}, "bytes_per_second": {}, "counters": {{{}}}}})", name,
      median * 1e9, seconds[seconds.size() * 95 / 100] * 1e9, bytes / median, counters);
}

/// Rows of the rank and of its twin, as bench/table.py makes them; they take turns.
inline std::string take_turns(const std::string& name, ExpertShape shape, StageRank& rank,
                              const std::function<double()>& run_twin) {
  constexpr int num_warm_up = 2;
  constexpr int num_repetitions = 15;
  std::vector<double> engine_seconds;
  std::vector<double> twin_seconds;
  std::vector<double> shares;
  for (int i = 0; i < num_warm_up + num_repetitions; ++i) {
    const double of_engine = rank.run_step();
    const double of_twin = run_twin();
    if (i < num_warm_up) continue;
    engine_seconds.push_back(of_engine);
    twin_seconds.push_back(of_twin);
    shares.push_back(of_twin / of_engine);
  }
  std::ranges::sort(shares);
  const std::string counters =
      fmt::format(R"("of_twin": {:.3f}, "of_twin_low": {:.3f}, "of_twin_high": {:.3f})",
                  shares[shares.size() / 2], shares[shares.size() / 4], shares[shares.size() * 3 / 4]);
  return stage_row(name, engine_seconds, shape, counters) + ",\n" +
         stage_row(name + "/twin", twin_seconds, shape, "");
}

/// Bundles of three sizes that are in use.
inline const std::pair<const char*, ExpertShape> stage_sizes[]{
    {"4 MB", {2048, 704}}, {"15 MB", {5120, 1024}}, {"44 MB", {7168, 2048}}};

}  // namespace trimtab::bench
