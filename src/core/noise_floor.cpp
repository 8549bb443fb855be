// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/noise_floor.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace trimtab {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Of load / speed over its mean, by live rank: the root of 1 / expected assignments.
std::vector<double> deviations(double assignments, const Topology& topology) {
  std::vector<double> result;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (!topology.is_alive(rank)) continue;
    result.push_back(std::sqrt(topology.total_speed() / (assignments * topology.rank(rank).speed)));
  }
  return result;
}

}  // namespace

double noise_floor(double assignments, const Topology& topology) {
  if (assignments <= 0.0) return 1.0;
  const std::vector<double> sigmas = deviations(assignments, topology);
  if (sigmas.size() < 2) return 1.0;
  // E max = low + integral of P(max > x) from low on, where the maximum is surely above low. Simpson's rule.
  constexpr int num_steps = 2000;
  constexpr double reach = 9.0;
  const double width = reach * *std::ranges::max_element(sigmas);
  const double step = 2.0 * width / num_steps;
  const auto exceeds = [&](double x) {
    double none = 1.0;
    for (double sigma : sigmas) none *= normal_cdf(x / sigma);
    return 1.0 - none;
  };
  double sum = 0.0;
  for (int i = 0; i <= num_steps; ++i) {
    const double weight = i == 0 || i == num_steps ? 1.0 : i % 2 == 0 ? 2.0 : 4.0;
    sum += weight * exceeds(-width + step * i);
  }
  return 1.0 - width + sum * step / 3.0;
}

}  // namespace trimtab
