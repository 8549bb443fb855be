// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/delta_search.hpp"

#include <limits>

namespace trimtab {

/// A placement on the curve moves -> largest pressure of one layer.
struct Waypoint {
  std::int32_t moves = 0;
  double pressure = 0.0;
  std::size_t trail = 0;      ///< Whose edits lead there,
  std::size_t num_edits = 0;  ///< and how many of them.
};

/// The best placements of one layer that searches came by, for each number of moves. Rows are not stored but
/// made again from the edits of a search.
class DeltaCurve {
 public:
  /// What is noted from now on follows from `start` by the edits of one search.
  void begin(Row start);
  /// `search` stands at a placement that may be taken.
  void note(const DeltaSearch& search);
  /// The edits of the search that was noted are complete.
  void end(const DeltaSearch& search);
  /// A placement by itself.
  void note_row(Row row, std::int32_t moves, double pressure);

  /// More moves, less pressure: each waypoint is better than all before it.
  [[nodiscard]] std::vector<Waypoint> front() const;
  [[nodiscard]] std::vector<ExpertId> row_at(const Waypoint& waypoint) const;
  /// Whether some waypoint is at or below `pressure`.
  [[nodiscard]] bool reaches(double pressure) const noexcept { return least_pressure_ <= pressure; }

 private:
  struct Trail {
    std::vector<ExpertId> start;
    std::vector<Edit> edits;
  };

  void offer(const Waypoint& waypoint);

  std::vector<Trail> trails_;
  std::vector<Waypoint> best_;  ///< By number of moves; `trail` past the end where there is none.
  double least_pressure_ = std::numeric_limits<double>::infinity();
};

}  // namespace trimtab
