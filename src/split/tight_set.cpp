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
}

double TightSearch::pressure(Rank rank, const ShareFlow<std::int64_t>& flow) const {
  return static_cast<double>(flow.load[rank.index()]) / network_.speeds[rank.index()];
}

/// Adds the ranks from `least_pressure` on, and those that their load could move to.
void TightSearch::add_reachable(double least_pressure, const ShareFlow<std::int64_t>& flow) {
  const auto add = [&](Rank rank) {
    if (region_of_[rank.index()] == 0) return;
    region_of_[rank.index()] = 0;
    ranks_.push_back(rank);
  };
  std::size_t next = ranks_.size();
  for (Rank rank : network_.order) {
    if (pressure(rank, flow) >= least_pressure) add(rank);
  }
  for (; next < ranks_.size(); ++next) {
    for (const Inlet& inlet : network_.inlets.of(ranks_[next])) {
      if (flow.on_edge[inlet.edge.index()] == 0) continue;
      for (EdgeId other : network_.edges_of(inlet.shared)) add(network_.rank_of[other.index()]);
    }
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
void TightSearch::start(const ShareFlow<std::int64_t>& flow) {
  ranks_.clear();
  double most = 0.0;
  for (Rank rank : network_.order) most = std::max(most, pressure(rank, flow));
  add_reachable(most, flow);
  if (!are_equal_) add_reachable(mean(flow), flow);
  ranks_.clear();
  for (Rank rank : network_.order) {
    if (region_of_[rank.index()] == 0) ranks_.push_back(rank);
  }
}

/// Whole differences are taken first: the fractions of a large load would be lost in its rounding.
void TightSearch::set_surplus(const ShareFlow<std::int64_t>& flow) {
  const auto count = static_cast<std::int64_t>(ranks_.size());
  std::int64_t load = 0;
  long double speed = 0.0L;
  for (Rank rank : ranks_) {
    load += flow.load[rank.index()];
    speed += network_.speeds[rank.index()];
  }
  const std::int64_t low = load / count;
  const auto rest = static_cast<double>(load % count) / static_cast<double>(count);
  for (Rank rank : ranks_) {
    const std::int64_t own = flow.load[rank.index()];
    const long double level = static_cast<long double>(load) * (network_.speeds[rank.index()] / speed);
    excess_.load[rank.index()] = are_equal_ ? static_cast<double>(own - low) - rest
                                            : static_cast<double>(static_cast<long double>(own) - level);
  }
  tolerance_ =
      are_equal_ ? least_tolerance : std::max(least_tolerance, std::ldexp(static_cast<double>(load), -58));
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
  if (!relief_.run<double>(ranks_, excess_, tolerance_).above) return false;
  const auto is_kept = [&](Rank rank) { return !relief_.can_reach_below(rank); };
  std::size_t kept = 0;
  for (Rank rank : ranks_) {
    if (is_kept(rank)) {
      ranks_[kept++] = rank;
    } else {
      region_of_[rank.index()] = -1;
    }
  }
  const bool is_smaller = kept < ranks_.size();
  ranks_.resize(kept);
  return is_smaller;
}

std::span<const Rank> TightSearch::find(const ShareFlow<std::int64_t>& flow) {
  start(flow);
  do set_surplus(flow);
  while (!is_level() && shrink(flow));
  for (Rank rank : ranks_) region_of_[rank.index()] = -1;
  std::sort(ranks_.begin(), ranks_.end());
  return ranks_;
}

}  // namespace trimtab
