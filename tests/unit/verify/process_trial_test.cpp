// SPDX-License-Identifier: Apache-2.0
#include "verify/process_trial.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace trimtab::verify {
namespace {

/// Threads stand for processes.
std::vector<TrialReport> play(const Case& drawn) {
  auto roots = *make_inproc_transports(drawn.topology.num_ranks());
  const SteadyClock clock;
  std::vector<std::optional<TrialReport>> reports(roots.size());
  {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < roots.size(); ++r)
      ranks.emplace_back([&, r] { reports[r] = run_process_trial(drawn, *roots[r], clock).value(); });
  }
  std::vector<TrialReport> all;
  for (auto& report : reports) all.push_back(*report);
  return all;
}

TEST(ProcessTrial, HasNoViolationAndOneReportOnAllRanks) {
  CaseOptions options;
  options.ranks = 3;
  options.deadline = std::chrono::milliseconds(50);
  TrialCounts sum;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const std::vector<TrialReport> reports = play(draw_case(seed, options).value());
    for (const TrialReport& report : reports) {
      EXPECT_EQ(report.violation ? to_string(*report.violation) : "", "") << "seed " << seed;
      EXPECT_EQ(report.counts, reports[0].counts) << "seed " << seed;
    }
    sum += reports[0].counts;
  }
  EXPECT_GT(sum.committed, 0U);
  EXPECT_GT(sum.faults_injected, 0U);
  EXPECT_EQ(sum.bytes_moved, sum.bytes_lower_bound);
  EXPECT_LE(sum.staging_peak_bytes, sum.staging_budget_bytes);
}

}  // namespace
}  // namespace trimtab::verify
