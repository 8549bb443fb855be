// SPDX-License-Identifier: Apache-2.0
#include "split/whole_limits.hpp"

#include <algorithm>
#include <functional>

namespace trimtab {
namespace {

void divide_equally(std::span<const Rank> ranks, std::int64_t total, std::span<std::int64_t> limits) {
  const auto count = static_cast<std::int64_t>(ranks.size());
  const std::int64_t low = total / count;
  std::int64_t extra = total % count;
  for (Rank rank : ranks) {
    limits[rank.index()] = low + (extra > 0 ? 1 : 0);
    --extra;
  }
}

}  // namespace

WholeLimits::WholeLimits(std::span<const double> speeds)
    : speeds_(speeds),
      are_equal_(std::ranges::adjacent_find(speeds, std::ranges::not_equal_to()) == speeds.end()) {
  heap_.reserve(speeds.size());
}

void WholeLimits::compute(std::span<const Rank> ranks, std::int64_t total, std::span<std::int64_t> limits) {
  if (are_equal_) return divide_equally(ranks, total, limits);
  divide_by_speed(ranks, total, limits);
}

// Rounding down at the mean level leaves less than one assignment for each rank; those are given singly.
void WholeLimits::divide_by_speed(std::span<const Rank> ranks, std::int64_t total,
                                  std::span<std::int64_t> limits) {
  double speed = 0.0;
  for (Rank rank : ranks) speed += speeds_[rank.index()];
  const double level = static_cast<double>(total) / speed * (1.0 - 1e-14);  // the mean may be rounded up
  std::int64_t left = total;
  heap_.clear();
  const auto next_of = [&](std::int32_t place) {
    const Rank rank = ranks[static_cast<std::size_t>(place)];
    return Next{static_cast<double>(limits[rank.index()] + 1) / speeds_[rank.index()], place};
  };
  for (std::int32_t place = 0; place < static_cast<std::int32_t>(ranks.size()); ++place) {
    const Rank rank = ranks[static_cast<std::size_t>(place)];
    limits[rank.index()] = static_cast<std::int64_t>(level * speeds_[rank.index()]);
    left -= limits[rank.index()];
    heap_.push_back(next_of(place));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  for (; left > 0; --left) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    Next& next = heap_.back();
    ++limits[ranks[static_cast<std::size_t>(next.place)].index()];
    next = next_of(next.place);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
}

}  // namespace trimtab
