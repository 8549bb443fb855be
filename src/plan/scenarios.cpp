// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/scenarios.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/random.hpp"

namespace trimtab {
namespace {

/// Mean 0, variance 1, between -6 and 6.
double draw_deviation(Random& random) {
  constexpr std::size_t resolution = 1 << 20;
  double sum = 0.0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.below(resolution)) / resolution;
  return sum - 6.0;
}

Result<LoadMatrix> draw(const LoadMatrix& mean, const LoadMatrix& variance, Random& random) {
  std::vector<double> loads;
  for (LayerId layer : ids<LayerId>(mean.num_layers())) {
    const auto means = mean.layer(layer);
    for (std::size_t e = 0; e < means.size(); ++e) {
      const double deviation = std::sqrt(variance.layer(layer)[e]) * draw_deviation(random);
      loads.push_back(std::max(0.0, means[e] + deviation));
    }
  }
  return LoadMatrix::make(mean.num_layers(), mean.num_experts(), std::move(loads));
}

}  // namespace

Result<std::vector<LoadMatrix>> sample_scenarios(const LoadMatrix& mean, const LoadMatrix& variance,
                                                 std::int32_t num_scenarios) {
  if (variance.num_layers() != mean.num_layers() || variance.num_experts() != mean.num_experts()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("a variance of {} layers of {} experts for loads of {} layers of {}",
                    variance.num_layers(), variance.num_experts(), mean.num_layers(), mean.num_experts()));
  }
  if (num_scenarios < 1) {
    return failure(Errc::invalid_argument, fmt::format("{} load scenarios < 1", num_scenarios));
  }
  Random random;
  std::vector<LoadMatrix> scenarios{mean};
  while (std::ssize(scenarios) < num_scenarios) {
    Result<LoadMatrix> drawn = draw(mean, variance, random);
    if (!drawn) return failure(std::move(drawn));
    scenarios.push_back(std::move(*drawn));
  }
  return scenarios;
}

}  // namespace trimtab
