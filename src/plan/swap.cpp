// SPDX-License-Identifier: Apache-2.0
#include "plan/swap.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Smaller gains are rounding: two orders of summation must not swap for ever.
constexpr double least_gain = 1e-12;

/// A replica, or a vacant slot as a replica of no load. Shares lie together so that a search reads one line.
struct Replica {
  double share;
  SlotId slot;
};

struct Candidate {
  double pressure;  ///< Of the fuller of the two ranks afterwards.
  SlotId leaves;    ///< The fullest rank.
  SlotId enters;
  std::size_t other;
};

class SwapImprover {
 public:
  SwapImprover(Packing& packing, const Region& region, double target)
      : packing_(packing), region_(region), target_(target), by_pressure_(region.ranks.size()) {
    for (std::size_t i = 0; i < region.ranks.size(); ++i) {
      first_.push_back(replicas_.size());
      for (SlotId slot : packing.topology().slots_of(region.ranks[i])) {
        const ExpertId expert = packing.expert_at(slot);
        replicas_.push_back({expert == no_expert ? 0.0 : packing.share(expert), slot});
      }
      by_pressure_[i] = i;
      sort_replicas(i, replicas_.size());
    }
    first_.push_back(replicas_.size());
    std::sort(by_pressure_.begin(), by_pressure_.end(),
              [this](std::size_t a, std::size_t b) { return is_lighter(a, b); });
  }

  void run(std::size_t max_swaps) {
    for (std::size_t i = 0; i < max_swaps && pressure(by_pressure_.back()) > target_; ++i) {
      if (!improve_once(by_pressure_.back())) return;
    }
  }

 private:
  [[nodiscard]] double pressure(std::size_t rank) const { return packing_.pressure(region_.ranks[rank]); }
  [[nodiscard]] double speed(std::size_t rank) const { return packing_.speed(region_.ranks[rank]); }
  [[nodiscard]] std::span<const Replica> on(std::size_t rank) const {
    return std::span(replicas_).subspan(first_[rank], first_[rank + 1] - first_[rank]);
  }
  [[nodiscard]] bool is_lighter(std::size_t a, std::size_t b) const {
    return pressure(a) != pressure(b) ? pressure(a) < pressure(b) : a > b;
  }

  void sort_replicas(std::size_t rank, std::size_t last) {
    const auto begin = replicas_.begin();
    std::sort(begin + static_cast<std::ptrdiff_t>(first_[rank]), begin + static_cast<std::ptrdiff_t>(last),
              [](const Replica& a, const Replica& b) {
                return a.share != b.share ? a.share > b.share : a.slot < b.slot;
              });
  }

  bool improve_once(std::size_t fullest) {
    Candidate best{pressure(fullest) * (1.0 - least_gain), SlotId{-1}, SlotId{-1}, fullest};
    for (std::size_t other : by_pressure_) {
      if (best.pressure <= target_) break;
      if (other != fullest) look_at(fullest, other, best);
    }
    if (best.other == fullest) return false;
    apply(fullest, best);
    return true;
  }

  void look_at(std::size_t fullest, std::size_t other, Candidate& best) const {
    const double inverse_speeds = 1.0 / speed(fullest) + 1.0 / speed(other);
    // The transfer that levels the two; the fuller one grows on both sides of it, so of the partners of a
    // replica only the nearest allowed one on each side matters.
    const double ideal = (pressure(fullest) - pressure(other)) / inverse_speeds;
    if (pressure(fullest) - ideal / speed(fullest) >= best.pressure) return;
    const auto theirs = on(other);
    std::size_t lighter = 0;  // first of theirs that is lighter than the ideal partner
    for (const Replica& leaves : on(fullest)) {
      while (lighter < theirs.size() && theirs[lighter].share >= leaves.share - ideal) ++lighter;
      for (std::size_t i = lighter; i-- > 0;) {
        if (consider(fullest, other, leaves, theirs[i], best)) break;
      }
      for (std::size_t i = lighter; i < theirs.size(); ++i) {
        if (consider(fullest, other, leaves, theirs[i], best)) break;
      }
    }
  }

  /// @return whether this partner settles its side: it is allowed, or no better than the best.
  bool consider(std::size_t fullest, std::size_t other, const Replica& leaves, const Replica& enters,
                Candidate& best) const {
    const double transfer = leaves.share - enters.share;
    const double after =
        std::max(pressure(fullest) - transfer / speed(fullest), pressure(other) + transfer / speed(other));
    if (!(after < best.pressure)) return true;
    if (!is_allowed(fullest, other, leaves.slot, enters.slot)) return false;
    best = {after, leaves.slot, enters.slot, other};
    return true;
  }

  [[nodiscard]] bool is_allowed(std::size_t fullest, std::size_t other, SlotId leaves, SlotId enters) const {
    const ExpertId goes = packing_.expert_at(leaves);
    const ExpertId comes = packing_.expert_at(enters);
    return goes != no_expert && !packing_.holds(region_.ranks[other], goes) &&
           (comes == no_expert || !packing_.holds(region_.ranks[fullest], comes));
  }

  void apply(std::size_t fullest, const Candidate& swap) {
    packing_.swap(swap.leaves, swap.enters);
    const auto at = [this](std::size_t rank, SlotId slot) {
      auto found = replicas_.begin() + static_cast<std::ptrdiff_t>(first_[rank]);
      while (found->slot != slot) ++found;
      return found;
    };
    std::swap(at(fullest, swap.leaves)->share, at(swap.other, swap.enters)->share);
    for (std::size_t rank : {fullest, swap.other}) sort_replicas(rank, first_[rank + 1]);
    std::erase_if(by_pressure_, [&](std::size_t rank) { return rank == fullest || rank == swap.other; });
    for (std::size_t rank : {fullest, swap.other}) insert_by_pressure(rank);
  }

  void insert_by_pressure(std::size_t rank) {
    by_pressure_.insert(std::find_if(by_pressure_.begin(), by_pressure_.end(),
                                     [&](std::size_t other) { return is_lighter(rank, other); }),
                        rank);
  }

  Packing& packing_;
  const Region& region_;
  double target_;
  std::vector<std::size_t> by_pressure_;  ///< Ranks of the region by their index in it, lightest first.
  std::vector<std::size_t> first_;        ///< Into replicas_, by rank of the region, and the end.
  std::vector<Replica> replicas_;         ///< Rank by rank, heaviest first.
};

}  // namespace

void improve_by_swaps(Packing& packing, const Region& region, double target, std::size_t max_swaps) {
  SwapImprover(packing, region, target).run(max_swaps);
}

}  // namespace trimtab
