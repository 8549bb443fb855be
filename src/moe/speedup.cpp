// SPDX-License-Identifier: Apache-2.0
#include "moe/speedup.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace trimtab::moe {
namespace {

/// P(|T| <= t) for integer degrees of freedom, by the finite series of Abramowitz and Stegun 26.7.3
/// and 26.7.4.
double central_probability(double t, int degrees) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(theta);
  const bool is_odd = degrees % 2 != 0;
  double term = is_odd ? cosine : 1.0;
  double sum = degrees == 1 ? 0.0 : term;
  for (int k = is_odd ? 3 : 2; k < degrees - 1; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  return is_odd ? 2.0 / std::numbers::pi * (theta + std::sin(theta) * sum) : std::sin(theta) * sum;
}

}  // namespace

double student_t_95(int degrees) {
  double low = 0.0;
  double high = 20.0;  // 12.71 at one degree is the largest.
  while (high - low > 1e-6) {
    const double middle = (low + high) / 2.0;
    (central_probability(middle, degrees) < 0.95 ? low : high) = middle;
  }
  return high;
}

Speedup compute_speedup(std::span<const Quad> quads) {
  const auto n = static_cast<double>(quads.size());
  if (quads.empty()) return {1.0, 0.0, std::numeric_limits<double>::infinity()};
  double mean = 0.0;
  for (const Quad& quad : quads) mean += std::log(quad.off_s / quad.on_s) / n;
  if (quads.size() < 2) return {std::exp(mean), 0.0, std::numeric_limits<double>::infinity()};
  double squares = 0.0;
  for (const Quad& quad : quads) squares += std::pow(std::log(quad.off_s / quad.on_s) - mean, 2);
  const double half = student_t_95(static_cast<int>(quads.size()) - 1) * std::sqrt(squares / (n - 1.0) / n);
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

}  // namespace trimtab::moe
