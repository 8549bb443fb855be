// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"
#include "verify/shared_case.hpp"
#include "verify/trial_report.hpp"

#include <trimtab/core/clock.hpp>

#include <sys/types.h>
#include <optional>
#include <utility>
#include <vector>

namespace trimtab::verify {

/// The processes of one case, and what they share. Ends them all when it is destroyed.
class LocalCase {
 public:
  explicit LocalCase(Case drawn) : drawn_(std::move(drawn)) {}
  ~LocalCase();
  LocalCase(const LocalCase&) = delete;
  LocalCase& operator=(const LocalCase&) = delete;

  /// Forks the ranks. @return `io` when memory, ports or processes cannot be had.
  Status start();
  /// Sees who has ended or stopped, and continues those whose time has come. True when all have ended.
  bool watch();
  /// Precondition: all have ended. @return `unavailable` when a rank could not begin.
  [[nodiscard]] Result<TrialReport> report() const;

 private:
  struct Process {
    pid_t id = 0;  ///< 0: has ended.
    std::optional<Clock::time_point> continue_at;
    int status = 0;  ///< How it has ended.
  };

  void note(std::size_t rank, int status);
  void end_all();
  [[nodiscard]] Clock::duration stop_length(std::size_t rank) const;
  [[nodiscard]] Clock::duration limit() const;
  [[nodiscard]] std::optional<Violation> violation() const;
  [[nodiscard]] std::optional<Violation> crash() const;
  [[nodiscard]] std::optional<Violation> disagreement() const;
  [[nodiscard]] std::optional<Violation> served_on() const;
  [[nodiscard]] TrialCounts counts() const;
  [[nodiscard]] const RankRecord& record(std::size_t rank) const { return shared_->ranks[rank]; }
  [[nodiscard]] bool serves(std::size_t rank) const;
  [[nodiscard]] std::vector<bool> struck() const;

  Case drawn_;
  SharedCase* shared_ = nullptr;
  std::vector<Process> processes_;
  SteadyClock clock_;
  Clock::time_point begun_;
  bool is_late_ = false;
};

}  // namespace trimtab::verify
