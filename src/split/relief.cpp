// SPDX-License-Identifier: Apache-2.0
#include "split/relief.hpp"

namespace trimtab {

Relief::Relief(const ShareNetwork& network)
    : network_(network),
      mark_(network.num_ranks(), 0),
      seen_(network.shared.size(), 0),
      own_(network.num_ranks(), no_edge),
      next_(network.num_ranks(), no_edge) {
  queue_.reserve(network.num_ranks());
}

void Relief::reach(Rank rank, EdgeId own, EdgeId next) {
  mark_[rank.index()] = round_ + 1;
  own_[rank.index()] = own;
  next_[rank.index()] = next;
  queue_.push_back(rank);
}

template <class Number>
Relief::Outcome Relief::begin_round(std::span<const Rank> region, const ShareFlow<Number>& flow,
                                    Number tolerance) {
  round_ += 2;
  queue_.clear();
  Outcome outcome;
  for (Rank rank : region) {
    mark_[rank.index()] = round_;
    const Number surplus = flow.load[rank.index()] - flow.limit[rank.index()];
    if (surplus < -tolerance) reach(rank, no_edge, no_edge);
    outcome.above = outcome.above || surplus > tolerance;
  }
  outcome.below = !queue_.empty();
  return outcome;
}

template <class Number>
void Relief::grow_forest(const ShareFlow<Number>& flow, Number tolerance) {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    for (EdgeId next : network_.edges_at.of(queue_[i])) {
      const SharedId shared = network_.shared_of[next.index()];
      if (seen_[shared.index()] == round_) continue;
      seen_[shared.index()] = round_;
      for (EdgeId own : network_.edges_of(shared)) {
        const Rank rank = network_.rank_of[own.index()];
        if (mark_[rank.index()] == round_ && flow.on_edge[own.index()] > tolerance) reach(rank, own, next);
      }
    }
  }
}

template <class Number>
bool Relief::push(Rank source, ShareFlow<Number>& flow, Number tolerance) {
  Number amount = flow.load[source.index()] - flow.limit[source.index()];
  Rank at = source;
  for (; own_[at.index()] != no_edge; at = network_.rank_of[next_[at.index()].index()]) {
    amount = std::min(amount, flow.on_edge[own_[at.index()].index()]);
  }
  amount = std::min(amount, flow.limit[at.index()] - flow.load[at.index()]);
  if (amount <= tolerance) return false;
  flow.load[source.index()] -= amount;
  flow.load[at.index()] += amount;
  for (at = source; own_[at.index()] != no_edge; at = network_.rank_of[next_[at.index()].index()]) {
    flow.on_edge[own_[at.index()].index()] -= amount;
    flow.on_edge[next_[at.index()].index()] += amount;
  }
  return true;
}

template <class Number>
Relief::Outcome Relief::run(std::span<const Rank> region, ShareFlow<Number>& flow, Number tolerance) {
  for (;;) {
    const Outcome outcome = begin_round(region, flow, tolerance);
    if (!outcome.above && !outcome.below) return outcome;
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
