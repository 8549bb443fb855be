// SPDX-License-Identifier: Apache-2.0
#include "split/leveller.hpp"

#include <algorithm>

namespace trimtab {

Leveller::Leveller(const ShareNetwork& network)
    : network_(network), limits_(network.speeds), relief_(network), region_of_(network.num_ranks(), -1) {
  order_.resize(static_cast<std::size_t>(network.first_of_component.back()));
  scratch_.reserve(order_.size());
  open_.reserve(order_.size() + 1);
  done_.reserve(order_.size());
}

void Leveller::level(ShareFlow<std::int64_t>& flow, std::span<const std::int64_t> fixed, SplitDepth depth) {
  std::copy_n(network_.order.begin(), order_.size(), order_.begin());
  done_.clear();
  double done_pressure = 0.0;
  const auto& first = network_.first_of_component;
  for (std::size_t c = first.size() - 1; c-- > 0;) add({first[c], first[c + 1], true});
  while (!open_.empty()) {
    const Region region = open_.back();
    open_.pop_back();
    const std::span<const Rank> ranks = ranks_of(region);
    const bool is_enough = depth == SplitDepth::fullest && max_pressure(ranks, flow.load) <= done_pressure;
    if (!is_enough && ranks.size() > 1) {
      set_limits(ranks, fixed, depth, flow);
      if (!level(region, flow)) continue;
    }
    done_.push_back({ranks, max_pressure(ranks, flow.load), region.is_last});
    done_pressure = std::max(done_pressure, done_.back().max_pressure);
  }
}

void Leveller::add(Region region) {
  for (Rank rank : ranks_of(region)) region_of_[rank.index()] = region.begin;
  open_.push_back(region);
}

std::span<Rank> Leveller::ranks_of(const Region& region) {
  return std::span(order_).subspan(static_cast<std::size_t>(region.begin),
                                   static_cast<std::size_t>(region.end - region.begin));
}

double Leveller::max_pressure(std::span<const Rank> ranks, std::span<const std::int64_t> loads) const {
  double most = 0.0;
  for (Rank rank : ranks) {
    most = std::max(most, static_cast<double>(loads[rank.index()]) / network_.speeds[rank.index()]);
  }
  return most;
}

/// As even as can be; or, where only the fullest ranks matter, up to what some rank has in any case.
void Leveller::set_limits(std::span<const Rank> ranks, std::span<const std::int64_t> fixed, SplitDepth depth,
                          ShareFlow<std::int64_t>& flow) {
  std::int64_t total = 0;
  for (Rank rank : ranks) total += flow.load[rank.index()];
  if (depth == SplitDepth::fullest) {
    const double level = max_pressure(ranks, fixed);
    std::int64_t room = 0;
    for (Rank rank : ranks) {
      flow.limit[rank.index()] =
          std::max(static_cast<std::int64_t>(level * network_.speeds[rank.index()] * (1.0 - 1e-15)),
                   fixed[rank.index()]);
      room += flow.limit[rank.index()];
    }
    if (room >= total) return;
  }
  limits_.compute(ranks, total, flow.limit);
}

/// Upper ranks. Keeps the order within both parts; returns where the second begins.
std::int32_t Leveller::move_upper_to_front(const Region& region) {
  scratch_.clear();
  auto to = order_.begin() + region.begin;
  for (Rank rank : ranks_of(region)) {
    if (relief_.is_upper(rank)) {
      *to++ = rank;
    } else {
      scratch_.push_back(rank);
    }
  }
  std::copy(scratch_.begin(), scratch_.end(), to);
  return static_cast<std::int32_t>(to - order_.begin());
}

/// Returns false where the region was cut in two instead.
bool Leveller::level(const Region& region, ShareFlow<std::int64_t>& flow) {
  const std::span<Rank> ranks = ranks_of(region);
  sweep_trees<std::int64_t>(network_, ranks, region_of_, flow);
  if (!relief_.run<std::int64_t>(ranks, flow, 0)) return true;
  const std::int32_t middle = move_upper_to_front(region);
  add({middle, region.end, region.is_last});
  add({region.begin, middle, false});
  return false;
}

}  // namespace trimtab
