// SPDX-License-Identifier: Apache-2.0
#include "split/whole_limits.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trimtab {
namespace {

double pressure(std::int64_t load, double speed) { return static_cast<double>(load) / speed; }

/// The largest load with load / speed <= level, as divisions round.
std::int64_t most_up_to(double level, double speed) {
  auto load = static_cast<std::int64_t>(level * speed);
  while (load > 0 && pressure(load, speed) > level) --load;
  while (pressure(load + 1, speed) <= level) ++load;
  return load;
}

bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
}

}  // namespace

WholeLimits::WholeLimits(std::span<const double> speeds)
    : speeds_(speeds),
      are_equal_(all_equal(speeds)),
      low_(speeds.size(), 0),
      high_(speeds.size(), 0),
      target_(speeds.size(), 0) {
  heap_.reserve(speeds.size());
}

void WholeLimits::compute(std::span<const Rank> ranks, std::int64_t total) {
  if (are_equal_) return divide_equally(ranks, total);
  divide_by_speed(ranks, total);
}

void WholeLimits::divide_equally(std::span<const Rank> ranks, std::int64_t total) {
  const auto count = static_cast<std::int64_t>(ranks.size());
  const std::int64_t low = total / count;
  std::int64_t extra = total % count;
  const std::int64_t high = low + (extra > 0 ? 1 : 0);
  for (Rank rank : ranks) {
    low_[rank.index()] = low;
    high_[rank.index()] = high;
    target_[rank.index()] = extra > 0 ? high : low;
    --extra;
  }
}

// Rounding down at the mean level leaves less than one assignment for each rank, which are then given singly.
double WholeLimits::find_level(std::span<const Rank> ranks, std::int64_t total) {
  double speed = 0.0;
  for (Rank rank : ranks) speed += speeds_[rank.index()];
  for (double level = static_cast<double>(total) / speed;; level *= 1.0 - 1e-14) {
    heap_.clear();
    std::int64_t left = total;
    double reached = 0.0;
    for (Rank rank : ranks) {
      const double own = speeds_[rank.index()];
      const std::int64_t load = most_up_to(level, own);
      left -= load;
      reached = std::max(reached, pressure(load, own));
      heap_.emplace_back(pressure(load + 1, own), rank);
    }
    if (left < 0) continue;  // the mean was rounded up
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    for (; left > 0; --left) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      auto& [next, rank] = heap_.back();
      reached = next;
      const double own = speeds_[rank.index()];
      next = pressure(static_cast<std::int64_t>(std::llround(next * own)) + 1, own);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
    return reached;
  }
}

void WholeLimits::divide_by_speed(std::span<const Rank> ranks, std::int64_t total) {
  const double level = find_level(ranks, total);
  std::int64_t left = total;
  for (Rank rank : ranks) {
    const double speed = speeds_[rank.index()];
    const std::int64_t high = most_up_to(level, speed);
    const bool is_at_level = high > 0 && pressure(high, speed) == level;
    high_[rank.index()] = high;
    low_[rank.index()] = high - (is_at_level ? 1 : 0);
    target_[rank.index()] = low_[rank.index()];
    left -= low_[rank.index()];
  }
  for (Rank rank : ranks) {
    if (left == 0) break;
    if (high_[rank.index()] == low_[rank.index()]) continue;
    target_[rank.index()] = high_[rank.index()];
    --left;
  }
}

}  // namespace trimtab
