// SPDX-License-Identifier: Apache-2.0
#include "split/relief.hpp"

namespace trimtab {
namespace {

constexpr Rank no_rank{-1};

}  // namespace

Relief::Relief(const ShareNetwork& network)
    : network_(network), visits_(network.num_ranks()), seen_(network.shared.size(), 0) {
  queue_.reserve(network.num_ranks());
}

template <class Number>
Relief::Outcome Relief::begin_round(std::span<const Rank> region, const ShareFlow<Number>& flow,
                                    Number tolerance) {
  round_ += 2;
  queue_.clear();
  Outcome outcome;
  for (Rank rank : region) {
    visits_[rank.index()].mark = round_;
    const Number surplus = flow.load[rank.index()] - flow.limit[rank.index()];
    if (surplus < -tolerance) reach(rank, no_edge, no_edge, no_rank);
    outcome.above = outcome.above || surplus > tolerance;
  }
  outcome.below = !queue_.empty();
  return outcome;
}

template <class Number>
void Relief::grow_forest(const ShareFlow<Number>& flow, Number tolerance) {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const Rank to = queue_[i];
    for (const Inlet& inlet : network_.inlets.of(to)) {
      if (seen_[inlet.shared.index()] == round_) continue;
      seen_[inlet.shared.index()] = round_;
      for (EdgeId own = inlet.first; own != inlet.last; own = own.next()) {
        const Rank rank = network_.rank_of[own.index()];
        if (visits_[rank.index()].mark == round_ && flow.on_edge[own.index()] > tolerance) {
          reach(rank, own, inlet.edge, to);
        }
      }
    }
  }
}

template <class Number>
bool Relief::push(Rank source, ShareFlow<Number>& flow, Number tolerance) {
  Number amount = flow.load[source.index()] - flow.limit[source.index()];
  Rank at = source;
  for (Rank to = visits_[at.index()].to; to != no_rank; to = visits_[at.index()].to) {
    amount = std::min(amount, flow.on_edge[visits_[at.index()].own.index()]);
    at = to;
  }
  amount = std::min(amount, flow.limit[at.index()] - flow.load[at.index()]);
  if (amount <= tolerance) return false;
  flow.load[source.index()] -= amount;
  flow.load[at.index()] += amount;
  for (at = source; visits_[at.index()].to != no_rank; at = visits_[at.index()].to) {
    flow.on_edge[visits_[at.index()].own.index()] -= amount;
    flow.on_edge[visits_[at.index()].next.index()] += amount;
  }
  return true;
}

template <class Number>
Relief::Outcome Relief::run(std::span<const Rank> region, ShareFlow<Number>& flow, Number tolerance) {
  for (;;) {
    const Outcome outcome = begin_round(region, flow, tolerance);
    if (!outcome.above || !outcome.below) return outcome;
    const std::size_t num_roots = queue_.size();
    grow_forest(flow, tolerance);
    bool moved = false;
    for (Rank rank : std::span(queue_).subspan(num_roots)) {
      if (flow.load[rank.index()] - flow.limit[rank.index()] <= tolerance) continue;
      moved = push(rank, flow, tolerance) || moved;
    }
    if (!moved) return outcome;
  }
}

template Relief::Outcome Relief::run(std::span<const Rank>, ShareFlow<std::int64_t>&, std::int64_t);
template Relief::Outcome Relief::run(std::span<const Rank>, ShareFlow<double>&, double);

}  // namespace trimtab
