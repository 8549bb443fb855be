// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace trimtab {

/// Weights of a mixture of N dual feasible functions: not negative, and they add up to 1.
template <std::size_t N>
using MixtureWeights = std::array<double, N>;

/// The nearest weights that are not negative and add up to 1.
template <std::size_t N>
void project(MixtureWeights<N>& weights) {
  MixtureWeights<N> sorted = weights;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0.0;
  double shift = 0.0;
  for (std::size_t j = 0; j < N; ++j) {
    sum += sorted[j];
    const double candidate = (sum - 1.0) / static_cast<double>(j + 1);
    if (sorted[j] > candidate) shift = candidate;
  }
  for (double& weight : weights) weight = std::max(0.0, weight - shift);
}

/// A step of Polyak's length towards `aim`, then back onto weights.
template <std::size_t N>
void ascend(MixtureWeights<N>& weights, MixtureWeights<N> gradient, double value, double aim) {
  const double mean = std::accumulate(gradient.begin(), gradient.end(), 0.0) / N;
  double square = 1e-30;
  for (double& g : gradient) {
    g -= mean;
    square += g * g;
  }
  const double length = (aim - value) / square;
  for (std::size_t j = 0; j < N; ++j) weights[j] += length * gradient[j];
  project<N>(weights);
}

/// Looks for weights under which `evaluate(weights, gradient)`, a concave function, is above `limit`, by a
/// fixed number of subgradient steps from `weights`, and leaves the last ones there.
template <std::size_t N, class Evaluate>
[[nodiscard]] bool rises_above(double limit, MixtureWeights<N>& weights, Evaluate evaluate) {
  constexpr int max_steps = 150;
  constexpr double margin = 1e-9;  // sums of hundreds of numbers: less than this is rounding
  MixtureWeights<N> gradient;
  for (int step = 0; step < max_steps; ++step) {
    const double value = evaluate(weights, gradient);
    if (value > limit * (1.0 + margin)) return true;
    const double left = 1.0 - static_cast<double>(step) / max_steps;
    ascend<N>(weights, gradient, value, limit * (1.002 + 0.1 * left * left));
  }
  return false;
}

/// Halves the interval five times: `is_refuted(load)` says whether no placement has a largest rank load of
/// `load`.
template <class IsRefuted>
[[nodiscard]] double raise_floor(double floor, double ceiling, IsRefuted is_refuted) {
  constexpr int halvings = 5;
  for (int i = 0; i < halvings; ++i) {
    const double target = (floor + ceiling) / 2.0;
    (is_refuted(target) ? floor : ceiling) = target;
  }
  return floor;
}

}  // namespace trimtab
