// SPDX-License-Identifier: Apache-2.0
#include "plan/group_search.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <bit>

namespace trimtab {

GroupSearch::GroupSearch(std::span<const double> loads, std::span<const double> speeds)
    : loads_(loads), speeds_(speeds), per_node_(loads.size() / speeds.size()) {
  TRIMTAB_ASSERT(loads.size() <= max_groups);
  double after = 0.0;
  bool are_alike = true;
  for (std::size_t node = speeds.size(); node-- > 0;) {
    are_alike = are_alike && speeds[node] == speeds.back();
    are_alike_[node] = are_alike;
    speed_after_[node] = after;
    after += speeds[node];
  }
}

bool GroupSearch::run(double limit, double bound) {
  limit_ = limit;
  good_enough_ = bound * (1.0 + rounding);
  is_done_ = false;
  best_pressure_ = limit;
  has_no_split_.reset();
  descend(0, (std::uint32_t{1} << loads_.size()) - 1, 0.0);
  return best_pressure_ < limit;
}

GroupSearch::Left GroupSearch::list(std::uint32_t mask, double pressure) const {
  Left left;
  left.mask = mask;
  left.pressure = pressure;
  left.sum_before[0] = 0.0;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto group = static_cast<std::uint8_t>(std::countr_zero(rest));
    left.group[left.size] = group;
    left.sum_before[left.size + 1] = left.sum_before[left.size] + loads_[group];
    ++left.size;
  }
  return left;
}

void GroupSearch::descend(std::size_t node, std::uint32_t mask, double pressure) {
  if (node == speeds_.size()) return keep(pressure);
  if (has_no_split_[mask]) return;
  const double limit = limit_;
  const Left left = list(mask, pressure);
  choose(node, left, {0, per_node_, 0.0, 0});
  // A split that was found here may be better than the nodes before allow for; then nothing is known.
  if (limit_ == limit) has_no_split_.set(mask);
}

void GroupSearch::choose(std::size_t node, const Left& left, const Choice& choice) {
  if (choice.need == 0) return take(node, left, choice);
  const std::size_t last = left.size - choice.need;
  const bool needs_heaviest = choice.next == 0 && are_alike_[node];
  for (std::size_t i = choice.next; i <= (needs_heaviest ? 0 : last); ++i) {
    if (is_over(left)) return;
    const double load = loads_[left.group[i]];
    // Later ones are lighter: the most this and the next ones can give only falls.
    const double most = choice.load + left.sum_before[i + choice.need] - left.sum_before[i];
    if (most < lowest(node, left)) return;
    const double least =
        choice.load + load + left.sum_before[left.size] - left.sum_before[left.size - choice.need + 1];
    if (least >= highest(node)) continue;
    if (i > choice.next && load == loads_[left.group[i - 1]]) continue;
    choose(node, left,
           {i + 1, choice.need - 1, choice.load + load, choice.mask | (std::uint32_t{1} << left.group[i])});
  }
}

void GroupSearch::take(std::size_t node, const Left& left, const Choice& choice) {
  if (choice.load >= highest(node) || choice.load < lowest(node, left)) return;
  parts_[node] = choice.mask;
  descend(node + 1, left.mask & ~choice.mask, std::max(left.pressure, choice.load / speeds_[node]));
}

void GroupSearch::keep(double pressure) {
  if (pressure >= limit_) return;
  best_pressure_ = pressure;
  std::copy_n(parts_.begin(), speeds_.size(), best_.begin());
  limit_ = pressure * (1.0 - rounding);
  is_done_ = pressure <= good_enough_;
}

}  // namespace trimtab
