// SPDX-License-Identifier: Apache-2.0
#include "split/tight_set.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab {
namespace {

/// At equal speeds every quantity is a multiple of 1 / ranks, so this separates 0 from all others.
constexpr double least_tolerance = 1e-7;

}  // namespace

TightSearch::TightSearch(const ShareNetwork& network)
    : network_(network), relief_(network), region_of_(network.num_ranks(), -1) {
  are_equal_ = std::all_of(network.speeds.begin(), network.speeds.end(),
                           [&](double speed) { return speed == network.speeds[0]; });
  excess_.resize(network);
  ranks_.reserve(network.order.size());
}

/// Whole differences are taken first: the fractions of a large load would be lost in its rounding.
void TightSearch::set_surplus(std::int64_t load, const ShareFlow<std::int64_t>& flow) {
  const auto count = static_cast<std::int64_t>(ranks_.size());
  const auto rest = static_cast<double>(load % count) / static_cast<double>(count);
  long double speed = 0.0L;
  for (Rank rank : ranks_) speed += network_.speeds[rank.index()];
  for (Rank rank : ranks_) {
    const std::int64_t own = flow.load[rank.index()];
    const long double level = static_cast<long double>(load) * (network_.speeds[rank.index()] / speed);
    excess_.load[rank.index()] = are_equal_ ? static_cast<double>(own - load / count) - rest
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
    for (EdgeId edge : network_.edges_at.of(rank)) {
      excess_.on_edge[edge.index()] = std::min(static_cast<double>(flow.on_edge[edge.index()]), most);
    }
  }
  sweep_trees<double>(network_, ranks_, region_of_, excess_);
  if (!relief_.run<double>(ranks_, excess_, tolerance_).above) return false;
  const auto kept = std::stable_partition(ranks_.begin(), ranks_.end(),
                                          [&](Rank rank) { return !relief_.can_reach_below(rank); });
  std::for_each(kept, ranks_.end(), [&](Rank rank) { region_of_[rank.index()] = -1; });
  ranks_.erase(kept, ranks_.end());
  return true;
}

TightSet TightSearch::find(const TopRegion& top, const ShareFlow<std::int64_t>& flow) {
  ranks_.assign(top.ranks.begin(), top.ranks.end());
  for (Rank rank : ranks_) region_of_[rank.index()] = 0;
  std::int64_t load = top.load;
  for (;;) {
    set_surplus(load, flow);
    const std::size_t count = ranks_.size();
    if (is_level() || !shrink(flow) || ranks_.size() == count) break;
    load = 0;
    for (Rank rank : ranks_) load += flow.load[rank.index()];
  }
  double speed = 0.0;
  for (Rank rank : ranks_) {
    speed += network_.speeds[rank.index()];
    region_of_[rank.index()] = -1;
  }
  return {static_cast<double>(load) / speed, ranks_};
}

}  // namespace trimtab
