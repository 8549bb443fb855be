// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>

#include <cstdint>
#include <vector>

namespace trimtab::test {

/// Shape of a generated matrix.
struct LoadShape {
  std::int32_t num_layers = 1;
  std::int32_t num_experts = 8;
};

/// Whole-number lognormal loads of mean about 10 000. The same seed gives the same loads.
[[nodiscard]] LoadMatrix lognormal_loads(LoadShape shape, double sigma, std::uint64_t seed);

/// lognormal_loads with four experts per layer at 8 to 13 times the mean, as real models show.
[[nodiscard]] LoadMatrix outlier_loads(LoadShape shape, double sigma, std::uint64_t seed);

/// The i-th most popular expert has load proportional to (i + 1)^-exponent; the order is random per layer.
[[nodiscard]] LoadMatrix zipf_loads(LoadShape shape, double exponent, std::uint64_t seed);

/// Every expert has `load`; 0 makes every layer dense.
[[nodiscard]] LoadMatrix uniform_loads(LoadShape shape, double load);

/// For values that the test itself wrote: stops the test program where they are refused.
[[nodiscard]] LoadMatrix loads_of(LoadShape shape, std::vector<double> values);

}  // namespace trimtab::test
