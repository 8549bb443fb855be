// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_curve.hpp"

#include <algorithm>

namespace trimtab {
namespace {

constexpr std::size_t no_trail = std::numeric_limits<std::size_t>::max();
/// A point that is better by less is the same balance with more moves.
constexpr double least_gain = 1e-9;

}  // namespace

void DeltaCurve::begin(Row start) { trails_.push_back({{start.begin(), start.end()}, {}}); }

void DeltaCurve::note(const DeltaSearch& search) {
  offer({search.moves(), search.max_pressure(), trails_.size() - 1, search.edits().size()});
}

void DeltaCurve::end(const DeltaSearch& search) {
  trails_.back().edits.assign(search.edits().begin(), search.edits().end());
}

void DeltaCurve::note_row(Row row, std::int32_t moves, double pressure) {
  begin(row);
  offer({moves, pressure, trails_.size() - 1, 0});
}

void DeltaCurve::offer(const Waypoint& waypoint) {
  const auto at = static_cast<std::size_t>(waypoint.moves);
  if (best_.size() <= at) best_.resize(at + 1, {0, 0.0, no_trail, 0});
  Waypoint& best = best_[at];
  if (best.trail == no_trail || waypoint.pressure < best.pressure) best = waypoint;
  least_pressure_ = std::min(least_pressure_, waypoint.pressure);
}

std::vector<Waypoint> DeltaCurve::front() const {
  std::vector<Waypoint> front;
  for (const Waypoint& waypoint : best_) {
    if (waypoint.trail == no_trail) continue;
    const bool is_better = front.empty() || waypoint.pressure < front.back().pressure * (1.0 - least_gain);
    if (is_better) front.push_back(waypoint);
  }
  return front;
}

std::vector<ExpertId> DeltaCurve::row_at(const Waypoint& waypoint) const {
  const Trail& trail = trails_[waypoint.trail];
  std::vector<ExpertId> row = trail.start;
  for (std::size_t i = 0; i < waypoint.num_edits; ++i)
    row[trail.edits[i].slot.index()] = trail.edits[i].expert;
  return row;
}

}  // namespace trimtab
