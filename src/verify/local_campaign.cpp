// SPDX-License-Identifier: Apache-2.0
#include "verify/local_campaign.hpp"

#include "verify/local_case.hpp"
#include "verify/process_rank.hpp"

#include <algorithm>
#include <list>
#include <thread>
#include <utility>

namespace trimtab::verify {
namespace {

class LocalCampaign {
 public:
  LocalCampaign(const CampaignOptions& options, int jobs)
      : options_(options), jobs_(static_cast<std::size_t>(jobs)) {}

  Result<CampaignReport> run() {
    while (num_begun_ < options_.num_cases || !running_.empty()) {
      if (Status begun = begin_some(); !begun) return failure(std::move(begun));
      if (Status ended = end_some(); !ended) return failure(std::move(ended));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ranges::sort(report_.violations, {}, &Violation::seed);
    return std::move(report_);
  }

 private:
  Status begin_some() {
    while (num_begun_ < options_.num_cases && running_.size() < jobs_) {
      Result<Case> drawn = draw_case(options_.seed + num_begun_, options_.cases);
      if (!drawn) return failure(std::move(drawn));
      ++num_begun_;
      set_real_time(*drawn);
      running_.emplace_back(std::move(*drawn));
      if (Status started = running_.back().start(); !started) return started;
    }
    return {};
  }

  Status end_some() {
    for (auto at = running_.begin(); at != running_.end();) {
      if (!at->watch()) {
        ++at;
        continue;
      }
      Result<TrialReport> played = at->report();
      if (!played) return failure(std::move(played));
      report_.counts += played->counts;
      if (played->violation) report_.violations.push_back(*std::move(played->violation));
      at = running_.erase(at);
    }
    return {};
  }

  const CampaignOptions& options_;
  std::size_t jobs_;
  std::size_t num_begun_ = 0;
  std::list<LocalCase> running_;
  CampaignReport report_;
};

}  // namespace

Result<CampaignReport> run_local_campaign(const CampaignOptions& options, int jobs) {
  return LocalCampaign(options, jobs).run();
}

}  // namespace trimtab::verify
