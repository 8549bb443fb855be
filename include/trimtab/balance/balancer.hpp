// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/balance/splitter.hpp>
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
  std::uint64_t split_every = 0;       ///< Forwards between two changes of shares; 0: shares stay even.
  PlanOptions plan;
  std::optional<Clock::duration> stall_budget;  ///< Of a step; see MigrationGoal.
  RecordContext context;                        ///< Whose counts are planned from.
  CollectiveOptions collective;  ///< For the reduction of counts: the tag of view 0, of which each later view
                                 ///< takes the next one, and the deadline. Its members are the view's.
};

/// Where the time of balancing went on this rank, and what came of it.
struct BalancerCounters {
  std::uint64_t windows_planned = 0;
  std::uint64_t windows_refused = 0;  ///< A rank's window did not conserve its counts (R5).
  std::uint64_t windows_skipped =
      0;  ///< A program of an earlier plan was still running somewhere, or nothing was counted.
  std::uint64_t programs_begun = 0;
  std::uint64_t splits_published = 0;  ///< Changes of shares alone.
  Clock::duration record{};            ///< Folding and reducing counts.
  Clock::duration split{};             ///< Solving, compiling and publishing shares.
  Clock::duration plan{};              ///< Planning and building programs.
};

/// The fixed policy on two clocks. Every `split_every` forwards: reduce the counts over the ranks, and
/// publish the best shares for them. Every `rebalance_every` forwards: plan from all counts since the last
/// plan, and begin the program that leads there; its tables carry the best shares for those counts.
///
/// One per rank, on the forward thread. All ranks of the engine's view call it with the same forwards in the
/// same order: it reduces over `channel`. Every rank solves and plans by itself from the same integers and so
/// gets the same shares and the same goal: new shares take effect with the next forward everywhere, and the
/// engine compares hashes before a byte moves. Borrows everything it is given.
class Balancer {
 public:
  Balancer(const BalancerOptions& options, Transport& channel, Recorder& recorder, Engine& engine,
           TablePublisher& publisher, Executor& executor, const Clock& clock);

  /// Call after the rank's part of a forward is complete and recorded. A layer without load in the window
  /// keeps its placement.
  /// @return an error when the reduction failed (a peer is missing); then this rank must stop. A refused
  /// window or an infeasible plan is no error:
  ///         it is counted, and kept as `last_problem`.
  Status on_forward_completed();

  /// Call when the engine says `renew`, before the next forward: what was counted in the old view is dropped
  /// (R5). When experts are lost it plans anew for the ranks that are left, all experts loaded alike, and
  /// begins the program that brings them back; call it again if that was rolled back.
  /// @return the planner's error when the ranks that are left have too few slots; errors of
  ///         Engine::begin_toward.
  Status enter_view();

  [[nodiscard]] const BalancerCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const std::optional<Error>& last_problem() const noexcept { return last_problem_; }

 private:
  /// What all ranks counted since the last reduction.
  struct Window {
    std::vector<std::int64_t> counts;  ///< [layers][experts]
    bool is_refused = false;           ///< By some rank; the counts are to be dropped.
    bool is_busy = false;              ///< A program runs on some rank.
  };

  [[nodiscard]] Result<std::vector<std::int64_t>> take_counts();
  [[nodiscard]] Result<Window> reduce_counts();
  Status change_shares(std::span<const std::int64_t> counts);
  Status rebalance(const Window& window);
  Status plan_and_begin(const LoadMatrix& loads, std::vector<std::int64_t> counts);
  Status begin_recovery();
  void note(Status status);

  BalancerOptions options_;
  Transport& channel_;
  Recorder& recorder_;
  Engine& engine_;
  TablePublisher& publisher_;
  Executor& executor_;
  const Clock& clock_;
  std::uint64_t forwards_since_split_ = 0;
  std::uint64_t forwards_since_plan_ = 0;
  std::vector<std::int64_t> counts_since_plan_;  ///< [layers][experts]
  bool was_refused_ = false;                     ///< A window since the last plan.
  std::optional<Splitter> splitter_;             ///< Of the epoch that it was last needed for.
  BalancerCounters counters_;
  std::optional<Error> last_problem_;
};

}  // namespace trimtab
