// SPDX-License-Identifier: Apache-2.0
#include "plan/choose_widths.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Costs of `before` with one curve more; tells how many steps that one takes.
std::vector<std::size_t> add_curve(const std::vector<double>& curve, std::vector<double>& cost) {
  const std::vector<double> before = cost;
  std::vector<std::size_t> taken(cost.size(), 0);
  for (std::size_t total = 0; total < cost.size(); ++total) {
    cost[total] = before[total] + curve[0];
    for (std::size_t own = 1; own < curve.size() && own <= total; ++own) {
      const double with = before[total - own] + curve[own];
      if (with >= cost[total]) continue;
      cost[total] = with;
      taken[total] = own;
    }
  }
  return taken;
}

}  // namespace

WidthChoice choose_widths(std::span<const std::vector<double>> curves, std::size_t max_steps) {
  std::size_t useful = 0;
  for (const auto& curve : curves) useful += curve.size() - 1;
  WidthChoice choice;
  choice.least_cost.assign(std::min(useful, max_steps) + 1, 0.0);
  for (const auto& curve : curves) choice.taken.push_back(add_curve(curve, choice.least_cost));
  return choice;
}

std::vector<std::size_t> steps_of(const WidthChoice& choice, std::size_t steps) {
  std::vector<std::size_t> own(choice.taken.size());
  for (std::size_t i = choice.taken.size(); i-- > 0;) {
    own[i] = choice.taken[i][steps];
    steps -= own[i];
  }
  return own;
}

}  // namespace trimtab
