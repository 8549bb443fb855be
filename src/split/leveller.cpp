// SPDX-License-Identifier: Apache-2.0
#include "split/leveller.hpp"

#include <algorithm>

namespace trimtab {

Leveller::Leveller(const ShareNetwork& network)
    : network_(network), limits_(network.speeds), relief_(network), region_of_(network.num_ranks(), -1) {
  order_.resize(network.order.size());
  scratch_.reserve(network.order.size());
  open_.reserve(network.order.size() + 1);
  tops_.reserve(network.first_of_component.size());
}

void Leveller::level(ShareFlow<std::int64_t>& flow, Depth depth) {
  std::copy(network_.order.begin(), network_.order.end(), order_.begin());
  tops_.clear();
  const auto& first = network_.first_of_component;
  for (std::size_t c = 0; c + 1 < first.size(); ++c) add({first[c], first[c + 1], true});
  while (!open_.empty()) {
    const Region region = open_.back();
    open_.pop_back();
    settle(region, flow, depth);
  }
}

void Leveller::add(Region region) {
  if (region.begin == region.end) return;
  for (Rank rank : ranks_of(region)) region_of_[rank.index()] = region.begin;
  open_.push_back(region);
}

void Leveller::add_top(const Region& region, const ShareFlow<std::int64_t>& flow) {
  TopRegion top{ranks_of(region), 0};
  for (Rank rank : top.ranks) top.load += flow.load[rank.index()];
  tops_.push_back(top);
}

std::span<Rank> Leveller::ranks_of(const Region& region) {
  return std::span(order_).subspan(static_cast<std::size_t>(region.begin),
                                   static_cast<std::size_t>(region.end - region.begin));
}

/// Keeps the order within both parts. Returns where the second begins.
template <class Predicate>
std::int32_t Leveller::move_to_front(const Region& region, Predicate predicate) {
  scratch_.clear();
  auto to = order_.begin() + region.begin;
  for (Rank rank : ranks_of(region)) {
    if (predicate(rank)) {
      *to++ = rank;
    } else {
      scratch_.push_back(rank);
    }
  }
  std::copy(scratch_.begin(), scratch_.end(), to);
  return static_cast<std::int32_t>(to - order_.begin());
}

void Leveller::settle(const Region& region, ShareFlow<std::int64_t>& flow, Depth depth) {
  const std::span<Rank> ranks = ranks_of(region);
  if (ranks.size() == 1) {
    if (region.is_top) add_top(region, flow);
    return;
  }
  std::int64_t total = 0;
  for (Rank rank : ranks) total += flow.load[rank.index()];
  limits_.compute(ranks, total);
  const auto set_limit = [&](std::span<const std::int64_t> limit) {
    for (Rank rank : ranks) flow.limit[rank.index()] = limit[rank.index()];
  };

  set_limit(limits_.target());
  sweep_trees<std::int64_t>(network_, ranks, region_of_, flow);

  Region rest = region;  // between those above and those below
  set_limit(limits_.high());
  if (relief_.run<std::int64_t>(ranks, flow, 0).above) {
    rest.begin = move_to_front(region, [&](Rank rank) { return !relief_.can_reach_below(rank); });
    if (rest.begin < region.end) add({region.begin, rest.begin, region.is_top});
  }
  for (Rank rank : ranks_of(rest)) region_of_[rank.index()] = -1;
  const bool has_above = rest.begin > region.begin;
  if (has_above && depth == Depth::top) return;

  set_limit(limits_.low());
  const std::int32_t begin = rest.begin;
  if (relief_.run<std::int64_t>(ranks_of(rest), flow, 0).below) {
    rest.begin = move_to_front(rest, [&](Rank rank) { return relief_.can_reach_below(rank); });
    if (depth == Depth::all && rest.begin < region.end) add({begin, rest.begin, false});
  }
  if (region.is_top && !has_above) add_top(rest, flow);
}

}  // namespace trimtab
