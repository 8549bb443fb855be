// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/delta.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace trimtab {

/// One layer's curve, and the first point that is even enough: those behind it are not wanted.
struct PricedCurve {
  std::span<const CurvePoint> points;
  std::size_t last = 0;
};

/// Which point of each curve to take so that all moves together stay within `max_moves`: again and again the
/// layer and the jump ahead on its curve that take most imbalance off per move, of equal ones the lower
/// layer. Precondition: the first points together are within `max_moves`.
[[nodiscard]] std::vector<std::size_t> spend_moves(std::span<const PricedCurve> curves,
                                                   std::int64_t max_moves);

}  // namespace trimtab
