// SPDX-License-Identifier: Apache-2.0
#include "support/generated_loads.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <cmath>
#include <random>

namespace trimtab::test {
namespace {

constexpr double mean_load = 10'000.0;

std::size_t size_of(LoadShape shape) {
  return static_cast<std::size_t>(shape.num_layers) * static_cast<std::size_t>(shape.num_experts);
}

std::vector<double> lognormal_values(LoadShape shape, double sigma, std::mt19937_64& random) {
  std::lognormal_distribution<double> draw(std::log(mean_load) - sigma * sigma / 2.0, sigma);
  std::vector<double> values(size_of(shape));
  std::generate(values.begin(), values.end(), [&] { return std::round(draw(random)); });
  return values;
}

}  // namespace

LoadMatrix loads_of(LoadShape shape, std::vector<double> values) {
  Result<LoadMatrix> loads = LoadMatrix::make(shape.num_layers, shape.num_experts, std::move(values));
  TRIMTAB_ASSERT(loads.has_value());
  return *std::move(loads);
}

LoadMatrix lognormal_loads(LoadShape shape, double sigma, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return loads_of(shape, lognormal_values(shape, sigma, random));
}

LoadMatrix outlier_loads(LoadShape shape, double sigma, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values = lognormal_values(shape, sigma, random);
  std::uniform_int_distribution<std::size_t> pick(0, static_cast<std::size_t>(shape.num_experts) - 1);
  std::uniform_real_distribution<double> factor(8.0, 13.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.num_layers) * 4; ++i) {
    const std::size_t layer = i / 4;
    const double load = std::round(mean_load * factor(random));
    values[layer * static_cast<std::size_t>(shape.num_experts) + pick(random)] = load;
  }
  return loads_of(shape, std::move(values));
}

LoadMatrix zipf_loads(LoadShape shape, double exponent, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(size_of(shape));
  const auto width = static_cast<std::size_t>(shape.num_experts);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::round(1e6 * std::pow(static_cast<double>(i % width) + 1.0, -exponent));
  }
  for (auto row = values.begin(); row != values.end(); row += shape.num_experts) {
    std::shuffle(row, row + shape.num_experts, random);
  }
  return loads_of(shape, std::move(values));
}

LoadMatrix uniform_loads(LoadShape shape, double load) {
  return loads_of(shape, std::vector<double>(size_of(shape), load));
}

}  // namespace trimtab::test
