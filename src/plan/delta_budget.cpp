// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_budget.hpp"

namespace trimtab {
namespace {

struct Jump {
  double rate = 0.0;  ///< Imbalance taken off per move.
  std::size_t to = 0;
  std::int64_t moves = 0;
};

/// The best jump from `at`, which may skip points: a curve need not be convex.
Jump best_jump(const PricedCurve& curve, std::size_t at, std::int64_t max_moves) {
  Jump best;
  for (std::size_t to = at + 1; to <= curve.last; ++to) {
    const std::int64_t moves = curve.points[to].moves - curve.points[at].moves;
    if (moves > max_moves) break;
    const double rate =
        (curve.points[at].imbalance - curve.points[to].imbalance) / static_cast<double>(moves);
    if (rate > best.rate) best = {rate, to, moves};
  }
  return best;
}

}  // namespace

std::vector<std::size_t> spend_moves(std::span<const PricedCurve> curves, std::int64_t max_moves) {
  std::vector<std::size_t> taken(curves.size(), 0);
  for (const PricedCurve& curve : curves) max_moves -= curve.points.front().moves;
  std::vector<Jump> jumps;
  for (const PricedCurve& curve : curves) jumps.push_back(best_jump(curve, 0, max_moves));
  while (true) {
    std::size_t best = curves.size();
    for (std::size_t i = 0; i < curves.size(); ++i) {
      if (jumps[i].moves > max_moves) jumps[i] = best_jump(curves[i], taken[i], max_moves);
      if (jumps[i].rate > 0.0 && (best == curves.size() || jumps[i].rate > jumps[best].rate)) best = i;
    }
    if (best == curves.size()) return taken;
    taken[best] = jumps[best].to;
    max_moves -= jumps[best].moves;
    jumps[best] = best_jump(curves[best], taken[best], max_moves);
  }
}

}  // namespace trimtab
