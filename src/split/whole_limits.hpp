// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trimtab {

/// The most even division of whole assignments among ranks that anything may be moved between.
///
/// With λ the total-th smallest of all numbers j / speed, j = 1, 2, … for each rank: a rank takes as many as
/// it has numbers below λ, or one more where it has λ itself.
class WholeLimits {
 public:
  /// `speeds` by rank; borrowed.
  explicit WholeLimits(std::span<const double> speeds);

  /// Of `total` assignments among `ranks`.
  void compute(std::span<const Rank> ranks, std::int64_t total);

  /// By Rank, of the ranks given last.
  [[nodiscard]] std::span<const std::int64_t> low() const noexcept { return low_; }
  [[nodiscard]] std::span<const std::int64_t> high() const noexcept { return high_; }
  /// Between low and high, with sum `total`.
  [[nodiscard]] std::span<const std::int64_t> target() const noexcept { return target_; }

 private:
  void divide_equally(std::span<const Rank> ranks, std::int64_t total);
  void divide_by_speed(std::span<const Rank> ranks, std::int64_t total);
  double find_level(std::span<const Rank> ranks, std::int64_t total);

  std::span<const double> speeds_;
  bool are_equal_;
  std::vector<std::int64_t> low_, high_, target_;
  std::vector<std::pair<double, Rank>> heap_;  ///< The next j / speed of each rank, least on top.
};

}  // namespace trimtab
