// SPDX-License-Identifier: Apache-2.0
#include "plan/pack.hpp"

#include <algorithm>

namespace trimtab {
namespace {

struct Swap {
  double pressure;  ///< Of the fuller of the two ranks afterwards.
  Rank other;
  ExpertId leaves;  ///< The fullest rank.
  ExpertId enters;
};

/// The best swap between the fullest rank and the others, found rank by rank; of equals the first stays.
class SwapSearch {
 public:
  SwapSearch(const RankContents& contents, Rank fullest)
      : contents_(contents),
        fullest_(fullest),
        best_{contents.pressure(fullest), fullest, no_expert, no_expert} {}

  void look_at(Rank other) {
    if (!could_beat_best(other)) return;
    const double ideal = ideal_transfer(other);
    const auto theirs = contents_.on(other);
    std::size_t lighter = 0;  // first of theirs that is lighter than the ideal partner
    for (ExpertId leaves : contents_.on(fullest_)) {
      if (contents_.holds(other, leaves)) continue;
      const double wanted = contents_.share(leaves) - ideal;
      while (lighter < theirs.size() && contents_.share(theirs[lighter]) >= wanted) ++lighter;
      for (std::size_t i = lighter; i-- > 0;) {
        if (consider(other, leaves, theirs[i])) break;
      }
      for (std::size_t i = lighter; i < theirs.size(); ++i) {
        if (consider(other, leaves, theirs[i])) break;
      }
    }
  }

  [[nodiscard]] const Swap& best() const noexcept { return best_; }

 private:
  /// However well two ranks share, one of them has at least their common pressure.
  [[nodiscard]] bool could_beat_best(Rank other) const {
    const double speeds = contents_.speed(fullest_) + contents_.speed(other);
    const double load = contents_.pressure(fullest_) * contents_.speed(fullest_) +
                        contents_.pressure(other) * contents_.speed(other);
    return other != fullest_ && load / speeds < best_.pressure;
  }

  /// Load that would level the two ranks. The pressure of the fuller one grows on both sides of it, so of the
  /// partners of a replica only the nearest on each side matter.
  [[nodiscard]] double ideal_transfer(Rank other) const {
    return (contents_.pressure(fullest_) - contents_.pressure(other)) /
           (1.0 / contents_.speed(fullest_) + 1.0 / contents_.speed(other));
  }

  /// @return false when the swap is not allowed, so that the next partner is to be tried.
  bool consider(Rank other, ExpertId leaves, ExpertId enters) {
    if (contents_.holds(fullest_, enters)) return false;
    const double transfer = contents_.share(leaves) - contents_.share(enters);
    const double pressure = std::max(contents_.pressure(fullest_) - transfer / contents_.speed(fullest_),
                                     contents_.pressure(other) + transfer / contents_.speed(other));
    if (pressure < best_.pressure) best_ = {pressure, other, leaves, enters};
    return true;
  }

  const RankContents& contents_;
  Rank fullest_;
  Swap best_;
};

/// Smaller gains are rounding: two orders of summation must not swap for ever.
constexpr double least_gain = 1e-12;

bool improve_once(RankContents& contents, const Region& region, Rank fullest) {
  SwapSearch search(contents, fullest);
  for (Rank other : region.ranks) search.look_at(other);
  const Swap swap = search.best();
  if (!(swap.pressure < contents.pressure(fullest) * (1.0 - least_gain))) return false;
  contents.remove(fullest, swap.leaves);
  contents.remove(swap.other, swap.enters);
  contents.add(fullest, swap.enters);
  contents.add(swap.other, swap.leaves);
  return true;
}

}  // namespace

void improve_by_swaps(RankContents& contents, const Region& region, double target, std::size_t max_swaps) {
  for (std::size_t i = 0; i < max_swaps; ++i) {
    const Rank fullest = fullest_rank(contents, region.ranks);
    if (contents.pressure(fullest) <= target || !improve_once(contents, region, fullest)) return;
  }
}

}  // namespace trimtab
