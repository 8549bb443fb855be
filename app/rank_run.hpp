// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/commands.hpp"
#include "app/run_options.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/transport.hpp>

#include <chrono>
#include <functional>

namespace trimtab {

/// Checks the answer, writes the document and the summary.
[[nodiscard]] Outcome report_run(const RunOptions& options, const moe::ServiceOptions& service,
                                 const moe::ServiceReport& report);

/// One rank as a process of a job. What is wrong with the input all ranks find alike.
class RankRun {
 public:
  /// Borrows both. `strike` is what --inject-fault does to this rank, if it is the one.
  RankRun(const RunOptions& options, Transport& root, std::function<void()> strike = {})
      : options_(options), root_(root), strike_(std::move(strike)) {}

  /// Serves. The first of the ranks that are left at the end reports.
  [[nodiscard]] Outcome run();

  /// Whether `run` returned an error that the other ranks cannot know of: they may wait for this one.
  [[nodiscard]] bool has_failed_alone() const noexcept { return has_failed_alone_; }

 private:
  Result<moe::ServiceOptions> prepare_here();
  Result<moe::ServiceOptions> prepare();
  Outcome fail_alone(Error error);
  [[nodiscard]] Clock::duration deadline() const { return std::chrono::milliseconds(options_.deadline_ms); }

  const RunOptions& options_;
  Transport& root_;
  std::function<void()> strike_;
  SteadyClock clock_;
  bool has_failed_alone_ = false;
};

}  // namespace trimtab
