// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "moe/gemm.hpp"
#include "moe/service.hpp"

namespace trimtab::moe {

/// Serves with ranks as threads; `lost`, if any, must fail, and all others must not. Every rank's report, by
/// rank.
inline std::vector<ServiceReport> serve(const ServiceOptions& options, ServiceObserver* observer = nullptr,
                                        std::optional<Rank> lost = std::nullopt) {
  auto ends = *make_inproc_transports(options.topology.num_ranks());
  std::vector<ServiceReport> reports(ends.size());
  const SteadyClock clock;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ends.size(); ++r) {
    threads.emplace_back([&, r] {
      use_one_gemm_thread();
      Result<ServiceReport> report = serve_rank(options, *ends[r], clock, observer);
      const bool is_lost = lost && lost->index() == r;
      EXPECT_EQ(report.has_value(), !is_lost) << (report ? "" : report.error().message);
      if (report) reports[r] = std::move(*report);
      if (!report) ends[r]->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

}  // namespace trimtab::moe
