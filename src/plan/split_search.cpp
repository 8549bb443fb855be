// SPDX-License-Identifier: Apache-2.0
#include "plan/split_search.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "plan/random.hpp"
#include "plan/spill.hpp"

namespace trimtab {
namespace {

/// In units of the mean rank load, by which a rank may stay too full for a while.
constexpr double first_temperature = 3e-3;
constexpr double rounding = 1e-9;
constexpr std::size_t num_stages = 64;
constexpr double cooling = 0.92;  // 3e-3 * 0.92^63 = 2e-5
/// While even shares are levelled: what load that no shares can place costs beside the squares of theirs.
constexpr double price_when_levelling = 1e3;
/// Of the tries of the search, as many again go into that.
constexpr std::size_t levelling_part = 4;
/// Slots looked at for a copy that can be given up.
constexpr int looks_for_spare = 6;

class SplitSearch {
 public:
  SplitSearch(std::span<LoadView> views, const Region& region, const SplitSearchOptions& options)
      : views_(views),
        any_view_(views.front().packing),
        region_(region),
        options_(options),
        spill_(options.spill, views),
        best_(any_view_.row().begin(), any_view_.row().end()) {
    for (const LoadView& view : views_) {
      flows_.emplace_back(view.packing.loads(), view.packing, region);
      const double mean =
          load_of(region.experts, view.packing.loads()) / speed_of(region.ranks, any_view_.topology());
      targets_.push_back(view.target / mean);
    }
    best_excess_ = excess();
  }

  void run() {
    const std::size_t steps = options_.max_steps / options_.rounds;
    double missed = options_.good_enough;
    double level = missed;
    for (std::size_t round = 0; round < options_.rounds && best_excess_ > options_.good_enough; ++round) {
      cool_down(steps, level);
      look_at_coolest();
      if (best_excess_ > level) missed = std::max(missed, level);
      level = (missed + best_excess_) / 2.0;
      return_to(best_);
    }
    level_even_shares(options_.max_steps / levelling_part);
  }

 private:
  struct Put {
    SlotId slot;
    ExpertId expert;
  };
  /// A swap of two slots, or up to two puts.
  struct Move {
    bool is_swap = false;
    std::array<Put, 2> puts{};
    std::size_t num_puts = 0;
    SlotId a{};
    SlotId b{};
  };

  double excess() {
    double excess = 0.0;
    for (std::size_t v = 0; v < views_.size(); ++v) {
      const double of_view = flows_[v].find_optimum() / targets_[v];
      excess = options_.objective == Objective::worst ? std::max(excess, of_view)
                                                      : excess + views_[v].weight * of_view;
    }
    return excess;
  }

  [[nodiscard]] double energy_of(std::size_t v) const {
    const double left = views_[v].weight * flows_[v].deficit();
    return is_levelling_ ? price_when_levelling * left + uneven(v) : left;
  }
  /// Sum of squares of what ranks carry above the target under even shares.
  [[nodiscard]] double uneven(std::size_t v) const {
    double sum = 0.0;
    for (Rank rank : region_.ranks) {
      const double above = std::max(0.0, views_[v].packing.pressure(rank) / views_[v].target - 1.0);
      sum += above * above;
    }
    return views_[v].weight * sum;
  }

  /// Takes changes that bring even shares nearer to the target and leave the optimum as it is.
  void level_even_shares(std::size_t steps) {
    is_levelling_ = true;
    start_at(std::max(best_excess_, options_.good_enough) * (1.0 + rounding));
    for (std::size_t step = 1; step <= steps && energy_ > 0.0; ++step) level_something();
    return_to(coolest_);
  }

  void level_something() {
    const LoadView& view = views_[random_.below(views_.size())];
    Rank full = any_rank();
    for (int i = 0; i < 3; ++i) {
      const Rank other = any_rank();
      if (view.packing.pressure(other) > view.packing.pressure(full)) full = other;
    }
    const SlotId mine = any_slot(full);
    const SlotId slot = any_slot(any_rank());
    const ExpertId expert = any_view_.expert_at(mine);
    const ExpertId other = any_view_.expert_at(slot);
    if (expert == no_expert || other == no_expert) return;
    if (any_view_.holds(any_view_.rank_of(slot), expert)) return;
    if (any_view_.copies(other) > 1 && random_.below(2) == 0) return try_put({slot, expert});
    if (!any_view_.holds(full, other)) try_swap(mine, slot);
  }

  [[nodiscard]] Rank any_rank() { return region_.ranks[random_.below(region_.ranks.size())]; }

  void start_at(double level) {
    energy_ = 0.0;
    for (std::size_t v = 0; v < views_.size(); ++v) {
      flows_[v].reset(level * targets_[v]);
      energy_ += energy_of(v);
    }
    coolest_energy_ = energy_;
    coolest_ = best_;
  }

  void cool_down(std::size_t steps, double level) {
    start_at(level);
    const std::size_t stage_steps = std::max<std::size_t>(steps / num_stages, 1);
    temperature_ = first_temperature;
    for (std::size_t step = 1; step <= steps && energy_ > 0.0; ++step) {
      try_something();
      if (step % stage_steps == 0) temperature_ *= cooling;
    }
  }

  /// Of two views the one with more left over.
  [[nodiscard]] std::size_t a_view() {
    const std::size_t a = random_.below(views_.size());
    const std::size_t b = random_.below(views_.size());
    return energy_of(a) >= energy_of(b) ? a : b;
  }

  /// The one with most room of up to four ranks outside the tight ones; none where luck finds none.
  [[nodiscard]] Rank a_rank_outside(const SplitFlow& flow) {
    Rank best{-1};
    for (int i = 0; i < 6; ++i) {
      const Rank rank = any_rank();
      if (flow.is_tight(rank)) continue;
      if (best.value() < 0 || flow.room(rank) > flow.room(best)) best = rank;
      if (i >= 3) break;
    }
    return best;
  }

  [[nodiscard]] SlotId any_slot(Rank rank) {
    const auto slots = any_view_.topology().slots_of(rank);
    return SlotId{slots.first().value() + static_cast<SlotId::rep>(random_.below(slots.size()))};
  }

  void try_something() {
    const SplitFlow& flow = flows_[a_view()];
    const auto tight = flow.tight_experts();
    if (tight.empty()) return;
    const ExpertId expert = tight[random_.below(tight.size())];
    const Rank rank = a_rank_outside(flow);
    if (rank.value() < 0 || any_view_.holds(rank, expert)) return;
    const SlotId slot = any_slot(rank);
    const ExpertId other = any_view_.expert_at(slot);
    if (other == no_expert) return;
    if (any_view_.copies(other) > 1 && random_.below(3) > 0) return try_put({slot, expert});
    const SlotId mine = any_replica(expert);
    if (random_.below(2) > 0) return try_rotation(slot, expert, other);
    if (!any_view_.holds(any_view_.rank_of(mine), other)) try_swap(mine, slot);
  }

  void try_swap(SlotId a, SlotId b) {
    if (spill_.price_swap(a, b)) attempt({.is_swap = true, .a = a, .b = b});
  }

  /// A copy that is to spare becomes one of `other`, whose slot `expert` gets.
  void try_rotation(SlotId slot, ExpertId expert, ExpertId other) {
    if (options_.spill != nullptr) return;
    for (int i = 0; i < looks_for_spare; ++i) {
      const Rank rank = any_rank();
      const SlotId spare = any_slot(rank);
      const ExpertId given_up = any_view_.expert_at(spare);
      if (given_up == no_expert || given_up == expert || any_view_.copies(given_up) < 2) continue;
      if (any_view_.holds(rank, other)) continue;
      return attempt({.puts = {Put{spare, other}, Put{slot, expert}}, .num_puts = 2});
    }
  }

  void try_put(Put put) {
    if (!spill_.price_put(put.slot, put.expert)) return;
    attempt({.puts = {put, {}}, .num_puts = 1});
  }

  [[nodiscard]] SlotId any_replica(ExpertId expert) {
    std::size_t n = random_.below(static_cast<std::size_t>(any_view_.copies(expert)));
    SlotId chosen{-1};
    any_view_.for_each_replica(expert, [&](SlotId slot) {
      if (n-- == 0) chosen = slot;
    });
    return chosen;
  }

  /// Views in the order of what they have left over, so that a bad move shows soon.
  void attempt(const Move& move) {
    if (is_levelling_ && !levels(move)) return;
    const double limit = energy_ + (is_levelling_ ? 0.0 : temperature_ * random_.waiting_time());
    const Move back = inverse(move);
    take_note(move);
    double energy = 0.0;
    std::size_t done = 0;
    for (; done < views_.size() && energy <= limit; ++done) {
      flows_[done].save();
      apply(done, move);
      flows_[done].settle();
      energy += energy_of(done);
    }
    if (energy > limit) {
      take_note(back);
      while (done-- > 0) {
        apply(done, back);
        flows_[done].restore();
      }
      return;
    }
    energy_ = energy;
    if (energy_ >= coolest_energy_) return;
    coolest_energy_ = energy_;
    coolest_.assign(any_view_.row().begin(), any_view_.row().end());
  }

  /// Whether even shares get more even: known at a fraction of what the flows cost.
  [[nodiscard]] bool levels(const Move& move) {
    const Move back = inverse(move);
    double change = 0.0;
    for (std::size_t v = 0; v < views_.size(); ++v) {
      change -= uneven(v);
      change_row(views_[v].packing, move);
      change += uneven(v);
      change_row(views_[v].packing, back);
    }
    return change < 0.0;
  }

  static void change_row(Packing& packing, const Move& move) {
    if (move.is_swap) packing.swap(move.a, move.b);
    for (std::size_t i = 0; i < move.num_puts; ++i) packing.put(move.puts[i].slot, move.puts[i].expert);
  }

  /// Before the packings change.
  void take_note(const Move& move) {
    if (move.is_swap) spill_.swap(move.a, move.b);
    if (!move.is_swap && move.num_puts == 1) spill_.put(move.puts[0].slot, move.puts[0].expert);
  }

  [[nodiscard]] Move inverse(const Move& move) const {
    Move back = move;
    for (std::size_t i = 0; i < move.num_puts; ++i) {
      const SlotId slot = move.puts[move.num_puts - 1 - i].slot;
      back.puts[i] = {slot, any_view_.expert_at(slot)};
    }
    return back;
  }

  void apply(std::size_t v, const Move& move) {
    Packing& packing = views_[v].packing;
    if (move.is_swap) {
      flows_[v].release(move.a);
      flows_[v].release(move.b);
      packing.swap(move.a, move.b);
    }
    for (std::size_t i = 0; i < move.num_puts; ++i) {
      flows_[v].release(move.puts[i].slot);
      packing.put(move.puts[i].slot, move.puts[i].expert);
    }
  }

  void look_at_coolest() {
    return_to(coolest_);
    const double now = excess();
    if (now >= best_excess_) return;
    best_excess_ = now;
    best_ = coolest_;
  }

  void return_to(const std::vector<ExpertId>& row) {
    for (LoadView& view : views_) view.packing.reset(row);
    spill_ = SpillLedger(options_.spill, views_);
  }

  std::span<LoadView> views_;
  const Packing& any_view_;  ///< For all that the views have in common.
  const Region& region_;
  const SplitSearchOptions& options_;
  SpillLedger spill_;
  std::deque<SplitFlow> flows_;  ///< By view.
  std::vector<double> targets_;  ///< By view, in units of its mean.
  Random random_;
  bool is_levelling_ = false;
  double temperature_ = 0.0;
  double energy_ = 0.0;
  std::vector<ExpertId> coolest_;  ///< Of this round, by energy.
  double coolest_energy_ = 0.0;
  std::vector<ExpertId> best_;  ///< Of all, by optimum.
  double best_excess_ = 0.0;
};

}  // namespace

void search_for_split(std::span<LoadView> views, const Region& region, const SplitSearchOptions& options) {
  SplitSearch(views, region, options).run();
}

}  // namespace trimtab
