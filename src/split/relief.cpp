// SPDX-License-Identifier: Apache-2.0
#include "split/relief.hpp"

#include <cstdlib>
#include <utility>

namespace trimtab {
namespace {

constexpr Rank no_rank{-1};

}  // namespace

Relief::Relief(const ShareNetwork& network)
    : network_(network), visits_(network.num_ranks()), seen_(network.shared.size(), 0) {
  for (auto* list : {&queue_, &leaves_, &above_, &below_}) list->reserve(network.num_ranks());
}

/// Trees are rooted at the fewer ones, so that each round has a way for as many as there are of the others.
/// Returns whether there are any above.
template <class Number>
bool Relief::begin_round(std::span<const Rank> region, const ShareFlow<Number>& flow, Number tolerance) {
  round_ += 2;
  for (auto* list : {&queue_, &leaves_, &above_, &below_}) list->clear();
  for (Rank rank : region) {
    Visit& visit = visits_[rank.index()];
    visit.mark = round_;
    visit.is_wanted = false;
    const Number surplus = flow.load[rank.index()] - flow.limit[rank.index()];
    if (surplus > tolerance) above_.push_back(rank);
    if (surplus < -tolerance) below_.push_back(rank);
  }
  is_forward_ = above_.size() < below_.size();
  const auto& roots = is_forward_ ? above_ : below_;
  const auto& wanted = is_forward_ ? below_ : above_;
  for (Rank rank : roots) reach(rank, no_edge, no_edge, no_rank);
  for (Rank rank : wanted) visits_[rank.index()].is_wanted = true;
  num_wanted_ = wanted.size();
  return !above_.empty();
}

template <class Number>
void Relief::grow_from_below(const ShareFlow<Number>& flow, Number tolerance) {
  for (std::size_t i = 0; i < queue_.size() && leaves_.size() < num_wanted_; ++i) {
    const Rank towards = queue_[i];
    for (const Inlet& inlet : network_.inlets.of(towards)) {
      if (seen_[inlet.shared.index()] == round_) continue;
      seen_[inlet.shared.index()] = round_;
      for (EdgeId edge = inlet.first; edge != inlet.last; edge = edge.next()) {
        const Rank rank = network_.rank_of[edge.index()];
        if (visits_[rank.index()].mark == round_ && flow.on_edge[edge.index()] > tolerance) {
          reach(rank, edge, inlet.edge, towards);
        }
      }
    }
  }
}

template <class Number>
void Relief::grow_from_above(const ShareFlow<Number>& flow, Number tolerance) {
  for (std::size_t i = 0; i < queue_.size() && leaves_.size() < num_wanted_; ++i) {
    const Rank towards = queue_[i];
    for (const Inlet& inlet : network_.inlets.of(towards)) {
      if (seen_[inlet.shared.index()] == round_ || flow.on_edge[inlet.edge.index()] <= tolerance) continue;
      seen_[inlet.shared.index()] = round_;
      for (EdgeId edge = inlet.first; edge != inlet.last; edge = edge.next()) {
        const Rank rank = network_.rank_of[edge.index()];
        if (visits_[rank.index()].mark == round_) reach(rank, inlet.edge, edge, towards);
      }
    }
  }
}

template <class Number>
bool Relief::push(Rank leaf, ShareFlow<Number>& flow, Number tolerance) {
  const auto gap = [&](Rank rank) { return std::abs(flow.load[rank.index()] - flow.limit[rank.index()]); };
  Number amount = gap(leaf);
  Rank root = leaf;
  while (visits_[root.index()].towards != no_rank) {
    amount = std::min(amount, flow.on_edge[visits_[root.index()].gives.index()]);
    root = visits_[root.index()].towards;
  }
  amount = std::min(amount, gap(root));
  if (amount <= tolerance) return false;
  const auto [from, to] = is_forward_ ? std::pair(root, leaf) : std::pair(leaf, root);
  flow.load[from.index()] -= amount;
  flow.load[to.index()] += amount;
  for (Rank at = leaf; at != root; at = visits_[at.index()].towards) {
    flow.on_edge[visits_[at.index()].gives.index()] -= amount;
    flow.on_edge[visits_[at.index()].takes.index()] += amount;
  }
  return true;
}

template <class Number>
bool Relief::run(std::span<const Rank> region, ShareFlow<Number>& flow, Number tolerance) {
  while (begin_round(region, flow, tolerance)) {
    if (is_forward_) {
      grow_from_above(flow, tolerance);
    } else {
      grow_from_below(flow, tolerance);
    }
    bool moved = false;
    for (Rank leaf : leaves_) moved = push(leaf, flow, tolerance) || moved;
    if (!moved) return true;
  }
  return false;
}

template bool Relief::run(std::span<const Rank>, ShareFlow<std::int64_t>&, std::int64_t);
template bool Relief::run(std::span<const Rank>, ShareFlow<double>&, double);

}  // namespace trimtab
