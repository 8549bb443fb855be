// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trimtab {

/// The most even division of whole assignments among ranks that anything may be moved between: the least
/// numbers of all j / speed, j = 1, 2, … for each rank, one for each assignment. Of equal numbers those of
/// ranks that come first.
class WholeLimits {
 public:
  /// `speeds` by rank; borrowed.
  explicit WholeLimits(std::span<const double> speeds);

  /// Of `total` assignments among `ranks`, into their entries of `limits` [ranks of the topology]. No
  /// allocation.
  void compute(std::span<const Rank> ranks, std::int64_t total, std::span<std::int64_t> limits);

 private:
  struct Next {
    double pressure;
    std::int32_t place;  ///< In `ranks`.
    friend bool operator>(const Next& a, const Next& b) {
      return a.pressure > b.pressure || (a.pressure == b.pressure && a.place > b.place);
    }
  };

  void divide_by_speed(std::span<const Rank> ranks, std::int64_t total, std::span<std::int64_t> limits);

  std::span<const double> speeds_;
  bool are_equal_;
  std::vector<Next> heap_;  ///< What one more assignment would bring each rank to, least on top.
};

}  // namespace trimtab
