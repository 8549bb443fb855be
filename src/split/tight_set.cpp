// SPDX-License-Identifier: Apache-2.0
#include "split/tight_set.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trimtab {
namespace {

/// At equal speeds every quantity is a multiple of 1 / ranks, so this separates 0 from all others.
constexpr double least_tolerance = 1e-7;

}  // namespace

TightSearch::TightSearch(const ShareNetwork& network)
    : network_(network),
      are_equal_(std::ranges::adjacent_find(network.speeds, std::ranges::not_equal_to()) ==
                 network.speeds.end()),
      relief_(network),
      region_of_(network.num_ranks(), -1) {
  excess_.resize(network);
  ranks_.reserve(network.num_ranks());
  found_.reserve(network.num_ranks());
}

double TightSearch::pressure(Rank rank, std::int64_t load) const {
  return static_cast<double>(load) / network_.speeds[rank.index()];
}

std::span<const Rank> TightSearch::lone_ranks() const {
  return std::span(network_.order).subspan(static_cast<std::size_t>(network_.first_of_component.back()));
}

/// Keeps the regions that have a rank from `least_pressure` on, and those that their load could move to.
void TightSearch::keep(std::span<const LevelRegion> regions, double least_pressure,
                       const ShareFlow<std::int64_t>& flow) {
  bool is_kept = false;
  for (std::size_t i = regions.size(); i-- > 0;) {
    is_kept = (is_kept && !regions[i].is_last) || regions[i].max_pressure >= least_pressure;
    if (!is_kept) continue;
    for (Rank rank : regions[i].ranks) region_of_[rank.index()] = 0;
  }
  for (Rank rank : lone_ranks()) {
    if (pressure(rank, flow.load[rank.index()]) >= least_pressure) region_of_[rank.index()] = 0;
  }
  ranks_.clear();
  for (Rank rank : network_.order) {
    if (region_of_[rank.index()] == 0) ranks_.push_back(rank);
  }
}

/// Load over speed of `ranks_`.
double TightSearch::mean(const ShareFlow<std::int64_t>& flow) const {
  double load = 0.0;
  double speed = 0.0;
  for (Rank rank : ranks_) {
    load += static_cast<double>(flow.load[rank.index()]);
    speed += network_.speeds[rank.index()];
  }
  return load / speed;
}

/// Starts from ranks that the wanted set lies in: it has a rank whose load / speed is not below the optimum,
/// and is closed under where load can move. At equal speeds such a rank is a fullest one; else the mean of
/// what the fullest can reach is not above the optimum.
void TightSearch::start(std::span<const LevelRegion> regions, double most,
                        const ShareFlow<std::int64_t>& flow) {
  keep(regions, most, flow);
  if (!are_equal_) keep(regions, mean(flow) * (1.0 - 1e-12), flow);
}

double TightSearch::max_pressure(std::span<const LevelRegion> regions,
                                 const ShareFlow<std::int64_t>& flow) const {
  double most = 0.0;
  for (const LevelRegion& region : regions) most = std::max(most, region.max_pressure);
  for (Rank rank : lone_ranks()) most = std::max(most, pressure(rank, flow.load[rank.index()]));
  return most;
}

/// Whether one rank has as much in any case: then no larger set need be looked at.
bool TightSearch::find_alone(double most, std::span<const std::int64_t> fixed) {
  for (Rank rank : network_.order) {
    if (pressure(rank, fixed[rank.index()]) < most) continue;
    found_.assign(1, rank);
    return true;
  }
  return false;
}

/// Whole differences are taken first: the fractions of a large load would be lost in its rounding.
void TightSearch::set_surplus(const ShareFlow<std::int64_t>& flow) {
  if (!are_equal_) return set_surplus_by_speed(flow);
  const auto count = static_cast<std::int64_t>(ranks_.size());
  std::int64_t load = 0;
  for (Rank rank : ranks_) load += flow.load[rank.index()];
  const std::int64_t low = load / count;
  const double rest = static_cast<double>(load % count) / static_cast<double>(count);
  for (Rank rank : ranks_) {
    excess_.load[rank.index()] = static_cast<double>(flow.load[rank.index()] - low) - rest;
  }
  tolerance_ = least_tolerance;
}

void TightSearch::set_surplus_by_speed(const ShareFlow<std::int64_t>& flow) {
  std::int64_t load = 0;
  long double speed = 0.0L;
  for (Rank rank : ranks_) {
    load += flow.load[rank.index()];
    speed += network_.speeds[rank.index()];
  }
  for (Rank rank : ranks_) {
    const long double level = static_cast<long double>(load) * (network_.speeds[rank.index()] / speed);
    excess_.load[rank.index()] =
        static_cast<double>(static_cast<long double>(flow.load[rank.index()]) - level);
  }
  tolerance_ = std::max(least_tolerance, std::ldexp(static_cast<double>(load), -58));
}

bool TightSearch::is_level() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [&](Rank rank) { return std::abs(excess_.load[rank.index()]) <= tolerance_; });
}

/// Keeps only the ranks that stay above and reach none below; false when there are none.
bool TightSearch::shrink(const ShareFlow<std::int64_t>& flow) {
  double most = 1.0;  // no edge can carry more than all that is above
  for (Rank rank : ranks_) most += std::abs(excess_.load[rank.index()]);
  for (Rank rank : ranks_) {
    for (const Inlet& inlet : network_.inlets.of(rank)) {
      excess_.on_edge[inlet.edge.index()] =
          std::min(static_cast<double>(flow.on_edge[inlet.edge.index()]), most);
    }
  }
  sweep_trees<double>(network_, ranks_, region_of_, excess_);
  if (!relief_.run<double>(ranks_, excess_, tolerance_)) return false;
  std::size_t kept = 0;
  for (Rank rank : ranks_) {
    if (relief_.is_upper(rank)) {
      ranks_[kept++] = rank;
    } else {
      region_of_[rank.index()] = -1;
    }
  }
  const bool is_smaller = kept < ranks_.size();
  ranks_.resize(kept);
  return is_smaller;
}

std::span<const Rank> TightSearch::find(std::span<const LevelRegion> regions,
                                        std::span<const std::int64_t> fixed,
                                        const ShareFlow<std::int64_t>& flow) {
  const double most = max_pressure(regions, flow);
  if (find_alone(most, fixed)) return found_;
  start(regions, most, flow);
  do set_surplus(flow);
  while (!is_level() && shrink(flow));
  found_.clear();
  for (Rank rank : ids<Rank>(region_of_.size())) {
    if (region_of_[rank.index()] == 0) found_.push_back(rank);
    region_of_[rank.index()] = -1;
  }
  return found_;
}

}  // namespace trimtab
