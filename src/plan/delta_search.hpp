// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/holders.hpp"
#include "plan/packing.hpp"

namespace trimtab {

/// One layer whose placement is to be changed by few moves. Borrows everything.
struct DeltaLayer {
  LayerLoads loads;
  const Topology& topology;
  const Holders& origin;         ///< What moves are counted from.
  std::span<const NodeId> home;  ///< By ExpertId: the only node that may hold it. Empty: any node.

  [[nodiscard]] bool may_hold(Rank rank, ExpertId expert) const {
    return home.empty() || home[expert.index()] == topology.node_of(rank);
  }
};

/// What a rank above `limit` costs: its excess (pressure / limit - 1) or the square of it, and `bonus` more.
/// The square levels the fullest ranks first; the bonus finishes one rank before it begins the next, which
/// takes fewest moves to bring all below the limit.
struct Penalty {
  double limit = 1.0;  ///< Load / speed.
  bool is_squared = false;
  double bonus = 0.0;
};

/// A slot that was given another expert.
struct Edit {
  SlotId slot;
  ExpertId expert;
};

/// Steepest descent on the sum of penalties per move. The changes are
/// - a slot gives up a replica of an expert that has others (or is vacant) and gets another expert: one move;
/// - two slots of different ranks exchange what they hold: two moves.
/// A change of slots that were moved before costs less or nothing, so choices made early are revised. No
/// change brings a second copy of an expert onto a rank.
///
/// Deterministic: of equal changes the first in slot order is taken.
class DeltaSearch {
 public:
  /// Precondition: every expert has a replica in `start`, or is placed by `place` before the first `step`.
  DeltaSearch(const DeltaLayer& layer, Row start, const Penalty& penalty);

  [[nodiscard]] const Packing& packing() const noexcept { return packing_; }
  /// Slots that hold an expert which `origin` has not on that rank.
  [[nodiscard]] std::int32_t moves() const noexcept { return moves_; }
  [[nodiscard]] double max_pressure() const;
  /// Every edit so far, in order.
  [[nodiscard]] std::span<const Edit> edits() const noexcept { return edits_; }

  /// Goes on under another bonus.
  void set_bonus(double bonus);

  /// Makes the best change. @return false when every rank is within the limit or no change helps.
  bool step(bool may_change_counts = true);

  /// Gives `expert` the slot that adds least penalty, among vacant ones and those of experts with more than
  /// one replica. @return false when no rank may take it.
  bool place(ExpertId expert);
  /// Fills `slot`, which is vacant, with the expert that helps most; of equal ones, that of largest share.
  /// A second copy only where the rank holds all it may. @return false when it may hold none.
  bool fill(SlotId slot);
  /// One replica of an expert with more than `counts` becomes one of an expert with fewer; the pair that adds
  /// least penalty. @return false when no such pair is possible.
  bool step_towards(std::span<const std::int32_t> counts);

 private:
  struct Change {
    double gain = 0.0;
    std::int32_t moves = 0;
    SlotId slot{-1};
    SlotId partner{-1};   ///< Of an exchange.
    ExpertId expert{-1};  ///< That replaces what `slot` holds, without a partner.
  };

  /// An expert that may get one more replica.
  struct Candidate {
    double relief;  ///< Penalty that its ranks lose by it.
    double share;   ///< Of each replica then.
    ExpertId expert;
  };
  /// A slot that may give up what it holds.
  struct Opening {
    SlotId slot;
    Rank rank;
    double load;  ///< Of the rank without it.
    double most;  ///< Gain if that were the end of it: what the rank costs now, less what others cost more.
  };

  [[nodiscard]] double penalty_at(Rank rank, double load) const noexcept;
  [[nodiscard]] double penalty(Rank rank) const noexcept { return penalties_[rank.index()]; }
  [[nodiscard]] bool can_leave(SlotId slot) const;
  [[nodiscard]] bool can_enter(SlotId slot, ExpertId expert) const;
  [[nodiscard]] std::int32_t moves_of(SlotId slot, ExpertId expert) const;
  [[nodiscard]] double relief(ExpertId expert) const;
  [[nodiscard]] double burden(SlotId slot) const;
  [[nodiscard]] double gain_here(SlotId slot, ExpertId expert) const;

  void refresh();
  [[nodiscard]] double share_of_one_more(ExpertId expert) const;
  void find_crowded_experts();
  void find_lightest_experts();
  void look_at_replacements();
  void look_at_replacement(const Opening& opening, const Candidate& candidate);
  void look_at_lightest(const Opening& opening);
  void look_at_exchanges();
  void look_at_exchanges(Rank full, Rank other);
  void look_at_exchange(SlotId slot, SlotId partner, double before, bool is_cheap);
  [[nodiscard]] Change best_filling(SlotId slot, bool may_repeat) const;
  void offer(const Change& change);
  [[nodiscard]] double paid_rate() const noexcept { return paid_.gain / paid_.moves; }
  [[nodiscard]] bool can_be_beaten(double gain, bool may_be_free, std::int32_t least_moves) const;
  void make(const Change& change);
  void note(SlotId slot);

  DeltaLayer layer_;
  Penalty rule_;
  Packing packing_;
  std::vector<double> scale_;  ///< By Rank: 1 / (speed * limit).
  std::vector<Rank> ranks_;    ///< Usable ones.
  std::vector<Edit> edits_;
  std::vector<std::uint8_t> is_moved_;     ///< By SlotId.
  std::vector<std::int32_t> moved_slots_;  ///< By Rank.
  std::int32_t moves_ = 0;

  // Of the step at hand.
  std::vector<double> penalties_;    ///< By Rank.
  std::vector<double> shares_;       ///< By SlotId.
  std::vector<Rank> full_;           ///< Above the limit, fullest first, at most `max_full_ranks`.
  std::vector<double> relief_;       ///< By ExpertId; 0 where it is on no full rank.
  std::vector<Candidate> crowded_;   ///< Those with relief, most first.
  std::vector<Candidate> lightest_;  ///< The others, smallest share first.
  Change free_;
  Change paid_;
};

}  // namespace trimtab
