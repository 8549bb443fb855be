// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// A lap has an order of assignments and several places where it may end. Each ends with other credits, so by
/// choosing the end, lap after lap, the same order can be played on and on.
inline constexpr std::size_t max_lap_ends = 8;

/// One replica among several of an expert. Credit is n times its weight less what it took of n assignments
/// times the weight of all: above 0 it is behind its share. Bounds are kept while every credit is below the
/// weight of all, up and down.
struct Share {
  std::int64_t weight = 0;
  std::int64_t credit = 0;  ///< At the beginning of the present run.
  std::int64_t least = 0;   ///< Of a lap, counted from its beginning.
  std::int64_t most = 0;
  std::array<std::int64_t, max_lap_ends> changes = {};  ///< By each end of the lap.
};

/// Where a lap may end.
struct LapEnds {
  std::uint32_t count = 0;
  std::array<std::uint32_t, max_lap_ends> lengths = {};  ///< Assignments up to there.
  bool is_endless = false;                               ///< At the first end every credit is as it was.

  [[nodiscard]] std::uint32_t longest() const noexcept {
    return *std::max_element(lengths.begin(), lengths.begin() + count);
  }
};

/// Lays out laps. Keeps memory for it.
class LapPlanner {
 public:
  /// Writes into `order` which share takes each assignment of a lap, and into `shares` what it does to their
  /// credits. `order` bounds the length, and has room for each share. The credits are 0, or where an end led
  /// that a run led to. `is_first`: share 0 takes the first assignment, whatever the weights are.
  LapEnds plan(std::span<Share> shares, bool is_first, std::span<std::uint32_t> order);

  /// Room for as many shares, so that planning allocates nothing.
  void reserve(std::size_t num_shares) { numbers_.reserve(num_arrays * num_shares); }

 private:
  static constexpr std::size_t num_arrays = 5;

  std::vector<std::int64_t> numbers_;
};

/// The laps to come: all end at the same end.
struct LapRun {
  std::uint32_t end = 0;
  std::int64_t num_laps = 0;
};

/// The end that can be played most often, and how often, so that bounds are kept, also in another lap after
/// those, and there is a way on. No laps when there is none; a new lap must then be planned.
[[nodiscard]] LapRun choose_run(std::span<const Share> shares, const LapEnds& ends);

}  // namespace trimtab
