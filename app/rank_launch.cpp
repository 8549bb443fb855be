// SPDX-License-Identifier: Apache-2.0
#include "app/rank_launch.hpp"

#include "moe/gemm.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/inproc.hpp>

#include <sched.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

namespace trimtab {
namespace {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Where pinning is not allowed the rank runs where the system puts it.
void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  static_cast<void>(sched_setaffinity(0, sizeof set, &set));
}

}  // namespace

std::int32_t default_num_ranks() {
  return std::clamp(static_cast<std::int32_t>(allowed_cores().size()), 2, 8);
}

Result<moe::ServiceReport> serve_inproc(const moe::ServiceOptions& service, moe::ServiceObserver* observer) {
  auto ends = make_inproc_transports(service.topology.num_ranks());
  if (!ends) return failure(std::move(ends));
  const std::vector<int> cores = allowed_cores();
  const SteadyClock clock;
  std::vector<std::optional<Result<moe::ServiceReport>>> reports(ends->size());
  {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < ends->size(); ++r) {
      ranks.emplace_back([&, r] {
        pin_to(cores[r % cores.size()]);
        moe::use_one_gemm_thread();
        reports[r] = moe::serve_rank(service, *(*ends)[r], clock, observer);
        if (!*reports[r]) (*ends)[r]->close();  // So that nobody waits for this rank.
      });
    }
  }
  if (service.rank_fault && service.rank_fault->ends_rank)
    reports.erase(reports.begin() + service.rank_fault->rank.value());
  const auto is_cause = [](const auto& report) {
    return !*report && report->error().code != Errc::peer_lost;
  };
  const auto is_failed = [](const auto& report) { return !report->has_value(); };
  auto failed = std::ranges::find_if(reports, is_cause);  // The others only lost their peer.
  if (failed == reports.end()) failed = std::ranges::find_if(reports, is_failed);
  return std::move(failed == reports.end() ? *reports.front() : **failed);
}

}  // namespace trimtab
