// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

/// Minimises cost = -value. One row after another is assigned along a shortest path of reduced costs.
class AssignmentSolver {
 public:
  AssignmentSolver(std::size_t size, const ValueRow& value_row)
      : size_(size),
        value_row_(value_row),
        values_(size),
        row_potential_(size, 0),
        column_potential_(size, 0),
        row_of_(size, none) {}

  std::vector<std::size_t> run() {
    for (std::size_t row = 0; row < size_; ++row) assign(row);
    std::vector<std::size_t> column_of(size_);
    for (std::size_t column = 0; column < size_; ++column) column_of[row_of_[column]] = column;
    return column_of;
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  void assign(std::size_t row) {
    distance_.assign(size_, std::numeric_limits<std::int64_t>::max());
    previous_.assign(size_, none);
    is_done_.assign(size_, false);
    std::size_t last = none;  // the column that was reached; none: the new row itself
    std::int64_t length = 0;
    start_potential(row);
    do {
      relax(last == none ? row : row_of_[last], last, length);
      last = nearest_column();
      length = distance_[last];
      is_done_[last] = true;
    } while (row_of_[last] != none);
    update_potentials(row, length);
    augment(row, last);
  }

  /// Makes every reduced cost of a row that is not assigned yet non-negative.
  void start_potential(std::size_t row) {
    value_row_(row, values_);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t c = 0; c < size_; ++c) least = std::min(least, -values_[c] - column_potential_[c]);
    row_potential_[row] = least;
  }

  void relax(std::size_t row, std::size_t from, std::int64_t length) {
    value_row_(row, values_);
    for (std::size_t c = 0; c < size_; ++c) {
      if (is_done_[c]) continue;
      const std::int64_t distance = length - values_[c] - row_potential_[row] - column_potential_[c];
      if (distance >= distance_[c]) continue;
      distance_[c] = distance;
      previous_[c] = from;
    }
  }

  /// Of equal ones a free column, which ends the search.
  [[nodiscard]] std::size_t nearest_column() const {
    std::size_t nearest = none;
    for (std::size_t c = 0; c < size_; ++c) {
      if (is_done_[c]) continue;
      if (nearest == none || distance_[c] < distance_[nearest] ||
          (distance_[c] == distance_[nearest] && row_of_[c] == none && row_of_[nearest] != none)) {
        nearest = c;
      }
    }
    return nearest;
  }

  void update_potentials(std::size_t row, std::int64_t length) {
    row_potential_[row] += length;
    for (std::size_t c = 0; c < size_; ++c) {
      if (!is_done_[c]) continue;
      column_potential_[c] += distance_[c] - length;
      if (row_of_[c] != none) row_potential_[row_of_[c]] += length - distance_[c];
    }
  }

  void augment(std::size_t row, std::size_t column) {
    while (previous_[column] != none) {
      row_of_[column] = row_of_[previous_[column]];
      column = previous_[column];
    }
    row_of_[column] = row;
  }

  std::size_t size_;
  const ValueRow& value_row_;
  std::vector<std::int64_t> values_;  ///< Of the row looked at.
  std::vector<std::int64_t> row_potential_;
  std::vector<std::int64_t> column_potential_;
  std::vector<std::size_t> row_of_;  ///< By column.

  // Of one search.
  std::vector<std::int64_t> distance_;
  std::vector<std::size_t> previous_;  ///< The column before on the path.
  std::vector<bool> is_done_;
};

}  // namespace

std::vector<std::size_t> assign_best(std::size_t size, const ValueRow& value_row) {
  return AssignmentSolver(size, value_row).run();
}

}  // namespace trimtab
