// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/assert.hpp>
#include <trimtab/core/load_matrix.hpp>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace trimtab::test {

/// Each load times lognormal(sigma): the next window of a service whose popularity drifts.
inline LoadMatrix drifted_loads(const LoadMatrix& loads, double sigma, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw;
  std::vector<double> values;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    for (double load : loads.layer(layer))
      values.push_back(std::round(load * std::exp(sigma * draw(random))));
  }
  auto made = LoadMatrix::make(loads.num_layers(), loads.num_experts(), std::move(values));
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

/// Popularity that wanders for ever and stays as uneven as it is: the logarithm of each load is a stationary
/// Ornstein-Uhlenbeck process around that of `base`.
class WanderingLoads {
 public:
  WanderingLoads(LoadMatrix base, double rho, double sigma, std::uint64_t seed)
      : base_(std::move(base)), rho_(rho), sigma_(sigma), random_(seed) {
    const auto size =
        static_cast<std::size_t>(base_.num_layers()) * static_cast<std::size_t>(base_.num_experts());
    for (std::size_t i = 0; i < size; ++i) offsets_.push_back(sigma_ * draw_(random_));
  }

  /// The next window.
  LoadMatrix next() {
    std::vector<double> values;
    auto offset = offsets_.begin();
    for (LayerId layer : ids<LayerId>(base_.num_layers())) {
      for (double load : base_.layer(layer)) {
        *offset = rho_ * *offset + sigma_ * std::sqrt(1.0 - rho_ * rho_) * draw_(random_);
        values.push_back(std::round(load * std::exp(*offset++)));
      }
    }
    auto made = LoadMatrix::make(base_.num_layers(), base_.num_experts(), std::move(values));
    TRIMTAB_ASSERT(made.has_value());
    return *std::move(made);
  }

 private:
  LoadMatrix base_;
  double rho_;
  double sigma_;
  std::mt19937_64 random_;
  std::normal_distribution<double> draw_;
  std::vector<double> offsets_;
};

}  // namespace trimtab::test
