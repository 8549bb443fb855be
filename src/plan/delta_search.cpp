// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_search.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

/// Penalties are relative; a smaller gain is rounding, and changes must not go round in circles.
constexpr double least_gain = 1e-13;
/// Where more ranks are above the limit, the fullest are seen to first.
constexpr std::size_t max_full_ranks = 32;
/// A change without a move is taken before a better one with moves, up to this factor.
constexpr double worth_of_free = 3.0;

}  // namespace

DeltaSearch::DeltaSearch(const DeltaLayer& layer, Row start, const Penalty& penalty)
    : layer_(layer),
      rule_(penalty),
      packing_(layer.loads, layer.topology, start),
      ranks_(usable_ranks(layer.topology)),
      is_moved_(start.size(), 0),
      moved_slots_(static_cast<std::size_t>(layer.topology.num_ranks()), 0),
      penalties_(static_cast<std::size_t>(layer.topology.num_ranks()), 0.0),
      shares_(start.size(), 0.0),
      relief_(layer.loads.size(), 0.0) {
  for (Rank rank : ids<Rank>(layer.topology.num_ranks())) {
    scale_.push_back(1.0 / (layer.topology.rank(rank).speed * penalty.limit));
  }
  for (SlotId slot : ids<SlotId>(start.size())) note(slot);
  refresh();
}

void DeltaSearch::set_bonus(double bonus) {
  rule_.bonus = bonus;
  refresh();
}

double DeltaSearch::max_pressure() const { return packing_.pressure(fullest_rank(packing_, ranks_)); }

double DeltaSearch::penalty_at(Rank rank, double load) const noexcept {
  const double excess = load * scale_[rank.index()] - 1.0;
  if (excess <= 0.0) return 0.0;
  return (rule_.is_squared ? excess * excess : excess) + rule_.bonus;
}

bool DeltaSearch::can_leave(SlotId slot) const {
  const ExpertId expert = packing_.expert_at(slot);
  return layer_.topology.is_alive(slot) && (expert == no_expert || packing_.copies(expert) > 1);
}

bool DeltaSearch::can_enter(SlotId slot, ExpertId expert) const {
  const Rank rank = packing_.rank_of(slot);
  return layer_.may_hold(rank, expert) && !packing_.holds(rank, expert);
}

/// What giving `slot` the expert adds to the moves.
std::int32_t DeltaSearch::moves_of(SlotId slot, ExpertId expert) const {
  const std::int32_t before = is_moved_[slot.index()];
  if (expert == no_expert) return -before;
  return (layer_.origin.holds(packing_.rank_of(slot), expert) ? 0 : 1) - before;
}

/// Penalty that the ranks of an expert lose when it gets one more replica elsewhere.
double DeltaSearch::relief(ExpertId expert) const {
  const double change = share_of_one_more(expert) - packing_.share(expert);
  double gain = 0.0;
  packing_.for_each_replica(expert, [&](SlotId slot) {
    const Rank rank = packing_.rank_of(slot);
    if (penalty(rank) > 0.0) gain += penalty(rank) - penalty_at(rank, packing_.load(rank) + change);
  });
  return gain;
}

/// The same for the other replicas of what `slot` holds when it gives that up: not above 0.
double DeltaSearch::burden(SlotId slot) const {
  const ExpertId expert = packing_.expert_at(slot);
  if (expert == no_expert) return 0.0;
  const double change = packing_.load(expert) / (packing_.copies(expert) - 1) - packing_.share(expert);
  double gain = 0.0;
  packing_.for_each_replica(expert, [&](SlotId other) {
    if (other == slot) return;
    const Rank rank = packing_.rank_of(other);
    gain += penalty(rank) - penalty_at(rank, packing_.load(rank) + change);
  });
  return gain;
}

/// The same for the rank of `slot` when `expert` replaces what it holds.
double DeltaSearch::gain_here(SlotId slot, ExpertId expert) const {
  const Rank rank = packing_.rank_of(slot);
  const ExpertId old = packing_.expert_at(slot);
  const double leaves = old == no_expert ? 0.0 : packing_.share(old);
  return penalty(rank) - penalty_at(rank, packing_.load(rank) - leaves + share_of_one_more(expert));
}

void DeltaSearch::refresh() {
  for (SlotId slot : ids<SlotId>(shares_.size())) {
    const ExpertId expert = packing_.expert_at(slot);
    shares_[slot.index()] = expert == no_expert ? 0.0 : packing_.share(expert);
  }
  full_.clear();
  for (Rank rank : ranks_) {
    penalties_[rank.index()] = penalty_at(rank, packing_.load(rank));
    if (penalty(rank) > 0.0) full_.push_back(rank);
  }
  std::sort(full_.begin(), full_.end(),
            [&](Rank a, Rank b) { return penalty(a) != penalty(b) ? penalty(a) > penalty(b) : a < b; });
  if (full_.size() > max_full_ranks) full_.resize(max_full_ranks);
}

double DeltaSearch::share_of_one_more(ExpertId expert) const {
  return packing_.load(expert) / (packing_.copies(expert) + 1);
}

void DeltaSearch::find_lightest_experts() {
  lightest_.clear();
  for (ExpertId expert : ids<ExpertId>(layer_.loads.size())) {
    if (relief_[expert.index()] == 0.0) lightest_.push_back({0.0, share_of_one_more(expert), expert});
  }
  std::sort(lightest_.begin(), lightest_.end(), [](const Candidate& a, const Candidate& b) {
    return a.share != b.share ? a.share < b.share : a.expert < b.expert;
  });
}

void DeltaSearch::find_crowded_experts() {
  for (const Candidate& candidate : crowded_) relief_[candidate.expert.index()] = 0.0;
  crowded_.clear();
  for (Rank rank : full_) {
    for (SlotId slot : layer_.topology.slots_of(rank)) {
      const ExpertId expert = packing_.expert_at(slot);
      if (expert == no_expert || relief_[expert.index()] > 0.0) continue;
      relief_[expert.index()] = relief(expert);
      if (relief_[expert.index()] == 0.0) continue;
      crowded_.push_back({relief_[expert.index()], share_of_one_more(expert), expert});
    }
  }
  std::sort(crowded_.begin(), crowded_.end(), [](const Candidate& a, const Candidate& b) {
    return a.relief != b.relief ? a.relief > b.relief : a.expert < b.expert;
  });
}

bool DeltaSearch::can_be_beaten(double gain, bool may_be_free, std::int32_t least_moves) const {
  return gain > least_gain && ((may_be_free && gain > free_.gain) || gain > paid_rate() * least_moves);
}

// Both sums are convex in the change of one rank's load, so where an expert that leaves and one that enters
// share a rank, the true gain is larger than the sum that is used here: never a change for the worse.
void DeltaSearch::look_at_replacement(const Opening& opening, const Candidate& candidate) {
  const double gain =
      opening.most + candidate.relief - penalty_at(opening.rank, opening.load + candidate.share);
  if (!can_be_beaten(gain, true, 1) || !can_enter(opening.slot, candidate.expert)) return;
  offer({gain, moves_of(opening.slot, candidate.expert), opening.slot, no_slot, candidate.expert});
}

void DeltaSearch::look_at_replacements() {
  for (SlotId slot : ids<SlotId>(packing_.row().size())) {
    if (!can_leave(slot)) continue;
    const Rank rank = packing_.rank_of(slot);
    const Opening opening{slot, rank, packing_.load(rank) - shares_[slot.index()],
                          burden(slot) + penalty(rank)};
    for (const Candidate& candidate : crowded_) {
      if (!can_be_beaten(opening.most + candidate.relief, true, 1)) break;
      look_at_replacement(opening, candidate);
    }
    if (penalty(rank) > 0.0 && can_be_beaten(opening.most, true, 1)) look_at_lightest(opening);
  }
}

/// An expert on no full rank helps only by being light, so the lightest that may come is the best of them.
void DeltaSearch::look_at_lightest(const Opening& opening) {
  const auto lightest = std::find_if(lightest_.begin(), lightest_.end(), [&](const Candidate& candidate) {
    return can_enter(opening.slot, candidate.expert);
  });
  if (lightest != lightest_.end()) look_at_replacement(opening, *lightest);
}

void DeltaSearch::look_at_exchanges() {
  for (Rank full : full_) {
    for (Rank other : ranks_) {
      if (packing_.pressure(other) < packing_.pressure(full)) look_at_exchanges(full, other);
    }
  }
}

void DeltaSearch::look_at_exchanges(Rank full, Rank other) {
  const double before = penalty(full) + penalty(other);
  const double speeds = packing_.speed(full) + packing_.speed(other);
  // However well two ranks share, one of them has at least their common pressure.
  const double common = (packing_.load(full) + packing_.load(other)) * packing_.speed(full) / speeds;
  const double most = before - penalty_at(full, common);
  const bool is_touched = moved_slots_[full.index()] + moved_slots_[other.index()] > 0;
  const bool is_worth_two = can_be_beaten(most, false, 2);
  if (!is_worth_two && !(is_touched && can_be_beaten(most, true, 1))) return;
  for (SlotId slot : layer_.topology.slots_of(full)) {
    const ExpertId leaves = packing_.expert_at(slot);
    if (leaves == no_expert || !can_enter(layer_.topology.slots_of(other).first(), leaves)) continue;
    for (SlotId partner : layer_.topology.slots_of(other)) {
      const bool is_cheap = is_moved_[slot.index()] || is_moved_[partner.index()];
      if (is_cheap || is_worth_two) look_at_exchange(slot, partner, before, is_cheap);
    }
  }
}

void DeltaSearch::look_at_exchange(SlotId slot, SlotId partner, double before, bool is_cheap) {
  const double change = shares_[slot.index()] - shares_[partner.index()];
  if (change <= 0.0) return;
  const Rank full = packing_.rank_of(slot);
  const Rank other = packing_.rank_of(partner);
  const double gain = before - penalty_at(full, packing_.load(full) - change) -
                      penalty_at(other, packing_.load(other) + change);
  if (!can_be_beaten(gain, is_cheap, is_cheap ? 1 : 2)) return;
  const ExpertId enters = packing_.expert_at(partner);
  if (enters != no_expert && !can_enter(slot, enters)) return;
  offer(
      {gain, moves_of(slot, enters) + moves_of(partner, packing_.expert_at(slot)), slot, partner, no_expert});
}

void DeltaSearch::offer(const Change& change) {
  if (change.moves > 0) {
    if (change.gain > paid_rate() * change.moves) paid_ = change;
  } else if (change.gain > free_.gain || (change.gain == free_.gain && change.moves < free_.moves)) {
    free_ = change;
  }
}

bool DeltaSearch::step(bool may_change_counts) {
  if (full_.empty()) return false;
  free_ = Change{.gain = least_gain};
  paid_ = Change{.gain = least_gain, .moves = 1};
  if (may_change_counts) {
    find_crowded_experts();
    find_lightest_experts();
    look_at_replacements();
  }
  look_at_exchanges();
  const bool has_free = free_.slot != no_slot;
  const bool has_paid = paid_.slot != no_slot;
  if (!has_free && !has_paid) return false;
  make(has_free && (!has_paid || free_.gain * worth_of_free > paid_rate()) ? free_ : paid_);
  return true;
}

void DeltaSearch::make(const Change& change) {
  if (change.partner == no_slot) {
    packing_.put(change.slot, change.expert);
  } else {
    packing_.swap(change.slot, change.partner);
    edits_.push_back({change.partner, packing_.expert_at(change.partner)});
    note(change.partner);
  }
  edits_.push_back({change.slot, packing_.expert_at(change.slot)});
  note(change.slot);
  refresh();
}

void DeltaSearch::note(SlotId slot) {
  const ExpertId expert = packing_.expert_at(slot);
  const Rank rank = packing_.rank_of(slot);
  const bool is_moved = expert != no_expert && !layer_.origin.holds(rank, expert);
  const std::int32_t change = (is_moved ? 1 : 0) - is_moved_[slot.index()];
  is_moved_[slot.index()] = is_moved ? 1 : 0;
  moved_slots_[rank.index()] += change;
  moves_ += change;
}

bool DeltaSearch::place(ExpertId expert) {
  Change best{.gain = -std::numeric_limits<double>::infinity()};
  for (SlotId slot : ids<SlotId>(packing_.row().size())) {
    if (!can_leave(slot) || !can_enter(slot, expert)) continue;
    const double gain = burden(slot) + gain_here(slot, expert);
    const bool is_vacant = packing_.expert_at(slot) == no_expert;
    const bool is_equal_but_vacant =
        gain == best.gain && is_vacant && packing_.expert_at(best.slot) != no_expert;
    if (gain > best.gain || is_equal_but_vacant) best = {gain, 0, slot, no_slot, expert};
  }
  if (best.slot == no_slot) return false;
  make(best);
  return true;
}

bool DeltaSearch::fill(SlotId slot) {
  Change best = best_filling(slot, false);
  if (best.expert == no_expert) best = best_filling(slot, true);
  if (best.expert == no_expert) return false;
  make(best);
  return true;
}

DeltaSearch::Change DeltaSearch::best_filling(SlotId slot, bool may_repeat) const {
  const Rank rank = packing_.rank_of(slot);
  Change best{.gain = -std::numeric_limits<double>::infinity(), .slot = slot, .expert = no_expert};
  for (ExpertId expert : ids<ExpertId>(layer_.loads.size())) {
    if (may_repeat ? !layer_.may_hold(rank, expert) : !can_enter(slot, expert)) continue;
    const double gain = relief(expert) + gain_here(slot, expert);
    const bool is_equal_but_larger =
        gain == best.gain && packing_.share(expert) > packing_.share(best.expert);
    if (gain > best.gain || is_equal_but_larger) best = {gain, 0, slot, no_slot, expert};
  }
  return best;
}

bool DeltaSearch::step_towards(std::span<const std::int32_t> counts) {
  Change best{.gain = -std::numeric_limits<double>::infinity()};
  std::vector<ExpertId> wanted;
  for (ExpertId expert : ids<ExpertId>(layer_.loads.size())) {
    if (packing_.copies(expert) < counts[expert.index()]) wanted.push_back(expert);
    relief_[expert.index()] = relief(expert);
  }
  crowded_.clear();
  for (SlotId slot : ids<SlotId>(packing_.row().size())) {
    const ExpertId old = packing_.expert_at(slot);
    if (!layer_.topology.is_alive(slot)) continue;
    if (old != no_expert && packing_.copies(old) <= counts[old.index()]) continue;
    const double others = burden(slot);
    for (ExpertId expert : wanted) {
      const double gain = others + relief_[expert.index()] + gain_here(slot, expert);
      if (gain > best.gain && can_enter(slot, expert)) best = {gain, 0, slot, no_slot, expert};
    }
  }
  std::fill(relief_.begin(), relief_.end(), 0.0);
  if (best.slot == no_slot) return false;
  make(best);
  return true;
}

}  // namespace trimtab
