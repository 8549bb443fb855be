// SPDX-License-Identifier: Apache-2.0
#include "plan/two_per_rank.hpp"

#include "plan/random.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// In units of the mean pair: accepted losses go from tenths to hundredths of a percent.
constexpr double first_temperature = 2e-3;
constexpr std::size_t num_stages = 64;
constexpr double cooling = 0.93;  // 2e-3 * 0.93^63 = 2e-5

/// Shares of all replicas, lightest first.
class SortedShares {
 public:
  explicit SortedShares(std::vector<float> shares) : shares_(std::move(shares)) {
    std::sort(shares_.begin(), shares_.end());
  }

  void replace(float old_share, std::int32_t old_copies, float share, std::int32_t copies) {
    const auto first = std::lower_bound(shares_.begin(), shares_.end(), old_share);
    shares_.erase(first, first + old_copies);
    shares_.insert(std::upper_bound(shares_.begin(), shares_.end(), share), static_cast<std::size_t>(copies),
                   share);
  }

  [[nodiscard]] float heaviest_pair() const {
    float heaviest = 0.0F;
    for (std::size_t i = 0, j = shares_.size() - 1; i < j; ++i, --j) {
      heaviest = std::max(heaviest, shares_[i] + shares_[j]);
    }
    return heaviest;
  }

 private:
  std::vector<float> shares_;
};

class PairCountSearch {
 public:
  PairCountSearch(LayerLoads loads, const Region& region, std::vector<std::int32_t> counts)
      : region_(region),
        unit_(static_cast<double>(region.ranks.size()) / load_of(region.experts, loads)),
        counts_(std::move(counts)),
        best_(counts_) {
    std::vector<float> shares;
    for (ExpertId e : region.experts) {
      loads_.push_back(static_cast<float>(loads[e.index()] * unit_));
      copies_.push_back(counts_[e.index()]);
      const std::size_t expert = copies_.size() - 1;
      shares.insert(shares.end(), static_cast<std::size_t>(copies_.back()), share(expert, 0));
      redundant_.insert(redundant_.end(), static_cast<std::size_t>(copies_.back() - 1), expert);
    }
    shares_ = SortedShares(std::move(shares));
  }

  std::vector<std::int32_t> run(double good_enough, std::size_t max_steps) {
    const std::size_t stage_steps = std::max<std::size_t>(max_steps / num_stages, 1);
    double temperature = first_temperature;
    now_ = best_pair_ = shares_.heaviest_pair();
    if (redundant_.empty()) return best_;
    for (std::size_t step = 1; step <= max_steps && best_pair_ > good_enough * unit_; ++step) {
      try_something(temperature);
      if (step % stage_steps == 0) temperature *= cooling;
    }
    return best_;
  }

 private:
  [[nodiscard]] float share(std::size_t expert, std::int32_t more) const {
    return loads_[expert] / static_cast<float>(copies_[expert] + more);
  }

  void try_something(double temperature) {
    const std::size_t raised = random_.below(copies_.size());
    std::size_t& redundant = redundant_[random_.below(redundant_.size())];
    const std::size_t lowered = redundant;
    if (raised == lowered) return;
    if (static_cast<std::size_t>(copies_[raised]) == region_.ranks.size()) return;
    give(lowered, raised);
    const double after = shares_.heaviest_pair();
    if (after <= now_ || after - now_ < temperature * random_.waiting_time()) {
      now_ = after;
      redundant = raised;
      if (now_ < best_pair_) keep_best();
    } else {
      give(raised, lowered);
    }
  }

  void give(std::size_t from, std::size_t to) {
    shares_.replace(share(from, 0), copies_[from], share(from, -1), copies_[from] - 1);
    shares_.replace(share(to, 0), copies_[to], share(to, 1), copies_[to] + 1);
    --copies_[from];
    ++copies_[to];
  }

  void keep_best() {
    best_pair_ = now_;
    for (std::size_t i = 0; i < copies_.size(); ++i) best_[region_.experts[i].index()] = copies_[i];
  }

  const Region& region_;
  double unit_;
  std::vector<std::int32_t> counts_;
  std::vector<std::int32_t> best_;      ///< By ExpertId.
  std::vector<float> loads_;            ///< By place in the region; a mean pair is 1.
  std::vector<std::int32_t> copies_;    ///< By place in the region.
  std::vector<std::size_t> redundant_;  ///< Expert, by place in the region, of each copy beyond the first.
  SortedShares shares_{{}};
  Random random_;
  double now_ = 0.0;
  double best_pair_ = 0.0;
};

}  // namespace

std::vector<std::int32_t> search_pair_counts(LayerLoads loads, const Region& region,
                                             std::vector<std::int32_t> counts, double good_enough,
                                             std::size_t max_steps) {
  return PairCountSearch(loads, region, std::move(counts)).run(good_enough, max_steps);
}

}  // namespace trimtab
