// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/plan/planner.hpp>
#include <trimtab/record/recorder.hpp>
#include <trimtab/transport/collectives.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab {

struct BalancerOptions {
  std::uint64_t rebalance_every = 16;  ///< Forwards between two plans; > 0.
  PlanOptions plan;
  RecordContext context;                  ///< Whose counts are planned from.
  std::vector<std::size_t> bundle_bytes;  ///< By layer, as registered in the stores of all ranks.
  std::size_t staging_budget_bytes = 0;   ///< Per rank, as given to the engine.
  CollectiveOptions collective;           ///< For the reduction of counts.
};

/// Where the time of balancing went on this rank, and what came of it.
struct BalancerCounters {
  std::uint64_t windows_planned = 0;
  std::uint64_t windows_refused = 0;  ///< A rank's window did not conserve its counts (R5).
  std::uint64_t windows_skipped =
      0;  ///< A program of an earlier plan was still running somewhere, or nothing was counted.
  std::uint64_t programs_begun = 0;
  Clock::duration record{};  ///< Folding and reducing counts.
  Clock::duration plan{};    ///< Planning and building programs.
};

/// The fixed policy: every `rebalance_every` forwards, reduce the counts over the ranks, plan, and begin the
/// program that leads there.
///
/// One per rank, on the forward thread. All ranks call it with the same forwards in the same order: it
/// reduces over `channel`. Every rank plans by itself from the same integers and so gets the same program;
/// the engine compares hashes before a byte moves. Borrows everything it is given.
class Balancer {
 public:
  Balancer(const BalancerOptions& options, Transport& channel, Recorder& recorder, Engine& engine,
           const Topology& topology, Executor& executor, const Clock& clock);

  /// Call after the rank's part of a forward is complete and recorded. A layer without load in the window
  /// keeps its placement.
  /// @return an error when the reduction failed (a peer is missing); then this rank must stop. A refused
  /// window or an infeasible plan is no error:
  ///         it is counted, and kept as `last_problem`.
  Status on_forward_completed();

  [[nodiscard]] const BalancerCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const std::optional<Error>& last_problem() const noexcept { return last_problem_; }

 private:
  [[nodiscard]] Result<std::vector<std::int64_t>> take_counts();
  [[nodiscard]] Result<std::optional<LoadMatrix>> reduce_counts();
  Status plan_and_begin(const LoadMatrix& loads);

  BalancerOptions options_;
  Transport& channel_;
  Recorder& recorder_;
  Engine& engine_;
  const Topology& topology_;
  Executor& executor_;
  const Clock& clock_;
  std::uint64_t forwards_since_plan_ = 0;
  BalancerCounters counters_;
  std::optional<Error> last_problem_;
};

}  // namespace trimtab
