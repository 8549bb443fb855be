// SPDX-License-Identifier: Apache-2.0
#include "plan/dual_ascent.hpp"
#include "plan/pigeonhole.hpp"

#include <cmath>
#include <limits>

namespace trimtab {
namespace {

constexpr std::size_t num_thresholds = 32;
constexpr std::size_t num_bins = 2 * num_thresholds;
constexpr std::size_t num_functions = num_thresholds + 2;
constexpr std::size_t share_function = num_thresholds;     // s / T
constexpr std::size_t slot_function = num_thresholds + 1;  // 1 / slots
constexpr double margin = 1e-9;

using Weights = MixtureWeights<num_functions>;
using Bins = std::array<double, num_bins>;

/// Looks for weights that refute one T.
class SplitRefutation {
 public:
  SplitRefutation(LayerLoads loads, const Region& region, std::int32_t slots_per_rank, double target)
      : num_ranks_(static_cast<double>(region.ranks.size())), mid_(1.0 / slots_per_rank) {
    for (ExpertId e : region.experts) {
      const double load = loads[e.index()] / target;
      total_ += load;
      // even a piece of nothing takes a slot
      sizes_.push_back(
          std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(load * num_bins * (1.0 - margin)))));
    }
    const std::size_t largest = *std::max_element(sizes_.begin(), sizes_.end());
    least_.assign(largest + 1, 0.0);
    last_piece_.assign(largest + 1, 0);
  }

  [[nodiscard]] bool find(Weights& weights) {
    return rises_above<num_functions>(num_ranks_, weights, [this](const Weights& tried, Weights& gradient) {
      return evaluate(tried, gradient);
    });
  }

 private:
  /// By bin: what a piece in (bin, bin + 1] / num_bins of T costs. Function j is 1 above T (1/2 + j /
  /// num_bins), 0 up to T minus that, and 1 / slots between.
  [[nodiscard]] Bins costs(const Weights& weights) const {
    Bins cost{};
    double up_to = 0.0;  // weights of functions 0..j
    const double all = std::accumulate(weights.begin(), weights.begin() + num_thresholds, 0.0);
    for (std::size_t j = 0; j < num_thresholds; ++j) {
      if (j > 0) cost[num_thresholds - j] = mid_ * (all - up_to);
      up_to += weights[j];
      cost[num_thresholds + j] = up_to + mid_ * (all - up_to);
    }
    for (double& of_bin : cost) of_bin += weights[slot_function] * mid_;
    return cost;
  }

  /// least_[m]: the least that pieces of together at least m bins cost; last_piece_[m] is one of them, and
  /// those of what is left the others. Costs rise with the bin, so of bins that cost the same only the last
  /// is looked at; weights are mostly zero, so few are left.
  void divide(const Bins& cost) {
    std::array<std::size_t, num_bins> steps{};
    std::size_t num_steps = 0;
    for (std::size_t bin = 0; bin < num_bins; ++bin) {
      if (bin + 1 == num_bins || cost[bin + 1] > cost[bin]) steps[num_steps++] = bin;
    }
    for (std::size_t size = 1; size < least_.size(); ++size) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < num_steps; ++i) {
        const std::size_t bin = std::min(steps[i], size - 1);
        const double here = cost[steps[i]] + least_[size - bin - 1];
        if (here >= least) continue;
        least = here;
        last_piece_[size] = bin;
      }
      least_[size] = least;
    }
  }

  /// The sum over experts of what their pieces cost, and its gradient by function.
  double evaluate(const Weights& weights, Weights& gradient) {
    divide(costs(weights));
    Bins pieces{};
    double value = weights[share_function] * total_;
    for (const std::size_t size : sizes_) {
      value += least_[size];
      for (std::size_t left = size; left > 0; left -= last_piece_[left] + 1) ++pieces[last_piece_[left]];
    }
    gradient[share_function] = total_;
    gradient[slot_function] = mid_ * std::accumulate(pieces.begin(), pieces.end(), 0.0);
    double large = std::accumulate(pieces.begin() + num_thresholds, pieces.end(), 0.0);
    double middle = 0.0;
    for (std::size_t j = 0; j < num_thresholds; ++j) {
      gradient[j] = large + mid_ * middle;
      large -= pieces[num_thresholds + j];
      middle += pieces[num_thresholds + j] + pieces[num_thresholds - j - 1];
    }
    return value;
  }

  double num_ranks_;
  double mid_;
  double total_ = 0.0;              ///< Load of all experts in units of T.
  std::vector<std::size_t> sizes_;  ///< Of each expert in bins, rounded up.
  std::vector<double> least_;       ///< By size in bins.
  std::vector<std::size_t> last_piece_;
};

}  // namespace

double split_pigeonhole_bound(LayerLoads loads, const Region& region, std::int32_t slots_per_rank,
                              double floor, double ceiling) {
  Weights weights;
  weights.fill(1.0 / num_functions);
  return raise_floor(floor, ceiling, [&](double target) {
    return SplitRefutation(loads, region, slots_per_rank, target).find(weights);
  });
}

}  // namespace trimtab
