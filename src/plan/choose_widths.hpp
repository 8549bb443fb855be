// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trimtab {

/// The cheapest choice of a step count for each of several curves, for every number of steps in total.
struct WidthChoice {
  std::vector<double> least_cost;               ///< By steps spent: falls or stays.
  std::vector<std::vector<std::size_t>> taken;  ///< [curve][steps spent by it and those before]
};

/// `curves[i][s]` is the cost of curve i with s steps, s = 0, 1, …; curves need be neither convex nor
/// falling. Exact, by dynamic programming over `max_steps`. Of equal costs fewer steps win. Precondition: no
/// curve is empty.
[[nodiscard]] WidthChoice choose_widths(std::span<const std::vector<double>> curves, std::size_t max_steps);

/// Steps of each curve when `steps` are spent in total.
[[nodiscard]] std::vector<std::size_t> steps_of(const WidthChoice& choice, std::size_t steps);

}  // namespace trimtab
