// SPDX-License-Identifier: Apache-2.0
#include "plan/pigeonhole.hpp"

#include "plan/dual_ascent.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace trimtab {
namespace {

constexpr std::size_t num_thresholds = 64;
constexpr std::size_t num_bins = 2 * num_thresholds;
constexpr std::size_t num_functions = num_thresholds + 2;
constexpr std::size_t share_function = num_thresholds;     // s / T
constexpr std::size_t slot_function = num_thresholds + 1;  // 1 / slots
constexpr std::int32_t counts_looked_at = 5;
/// Sums of hundreds of numbers: less than this is rounding.
constexpr double margin = 1e-9;

using Weights = MixtureWeights<num_functions>;

/// One replica count of an expert.
struct Choice {
  double copies;
  double share;     ///< Of all copies in units of T: the same for each count.
  std::size_t bin;  ///< The share of one is in (bin, bin + 1] / num_bins of T; num_bins: taken as none.
};

/// Looks for weights that refute one T.
class Refutation {
 public:
  Refutation(LayerLoads loads, const Region& region, std::int32_t slots_per_rank, double target)
      : num_ranks_(static_cast<double>(region.ranks.size())), mid_(1.0 / slots_per_rank) {
    for (ExpertId e : region.experts) add_choices(loads[e.index()] / target);
  }

  [[nodiscard]] bool find(Weights& weights) const {
    return rises_above<num_functions>(num_ranks_, weights, [this](const Weights& tried, Weights& gradient) {
      return evaluate(tried, gradient);
    });
  }

 private:
  void add_choices(double load) {
    const auto fewest = std::max(1.0, std::ceil(load * (1.0 - margin)));
    for (std::int32_t more = 0; more < counts_looked_at; ++more) {
      const double copies = fewest + more;
      const double bin = std::ceil(load / copies * num_bins * (1.0 - margin)) - 1.0;
      choices_.push_back({copies, load, static_cast<std::size_t>(std::clamp(bin, 0.0, num_bins - 1.0))});
    }
    // more copies cost at least their slots
    choices_.push_back({fewest + counts_looked_at, load, num_bins});
  }

  /// By bin: the weighted sum of the step functions. Function j is 1 above T (1/2 + j / num_bins), 0 up to T
  /// minus that, and 1 / slots between: one large replica leaves room for none of the middle.
  [[nodiscard]] std::array<double, num_bins + 1> steps_by_bin(const Weights& weights) const {
    std::array<double, num_bins + 1> value{};
    double up_to = 0.0;  // weights of functions 0..j
    const double all = std::accumulate(weights.begin(), weights.begin() + num_thresholds, 0.0);
    for (std::size_t j = 0; j < num_thresholds; ++j) {
      if (j > 0) value[num_thresholds - j] = mid_ * (all - up_to);
      up_to += weights[j];
      value[num_thresholds + j] = up_to + mid_ * (all - up_to);
    }
    return value;
  }

  /// sum_e min_c c g(w_e / c), and its gradient by function.
  double evaluate(const Weights& weights, Weights& gradient) const {
    const std::array<double, num_bins + 1> steps = steps_by_bin(weights);
    std::array<double, num_bins + 1> copies_in{};
    const double slot_weight = weights[slot_function] * mid_;
    double value = 0.0;
    gradient.fill(0.0);
    for (auto first = choices_.begin(); first != choices_.end(); first += counts_looked_at + 1) {
      auto best = first;
      double least = std::numeric_limits<double>::infinity();
      for (auto choice = first; choice != first + counts_looked_at + 1; ++choice) {
        const double here = choice->copies * (slot_weight + steps[choice->bin]);
        if (here >= least) continue;
        least = here;
        best = choice;
      }
      value += least + weights[share_function] * best->share;
      copies_in[best->bin] += best->copies;
      gradient[share_function] += best->share;
      gradient[slot_function] += best->copies * mid_;
    }
    double large = 0.0;
    for (std::size_t bin = num_thresholds; bin < num_bins; ++bin) large += copies_in[bin];
    double middle = 0.0;
    for (std::size_t j = 0; j < num_thresholds; ++j) {
      gradient[j] = large + mid_ * middle;
      large -= copies_in[num_thresholds + j];
      middle += copies_in[num_thresholds + j] + copies_in[num_thresholds - j - 1];
    }
    return value;
  }

  double num_ranks_;
  double mid_;
  std::vector<Choice> choices_;  ///< counts_looked_at + 1 for each expert.
};

}  // namespace

double pigeonhole_bound(LayerLoads loads, const Region& region, std::int32_t slots_per_rank, double floor,
                        double ceiling) {
  Weights weights;
  weights.fill(1.0 / num_functions);
  return raise_floor(floor, ceiling, [&](double target) {
    return Refutation(loads, region, slots_per_rank, target).find(weights);
  });
}

}  // namespace trimtab
