// SPDX-License-Identifier: Apache-2.0
#include "plan/anneal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "plan/random.hpp"
#include "plan/spill.hpp"

namespace trimtab {
namespace {

/// Temperatures in units of (excess / target)^2: from where a rank may go ten percent above the target to
/// where hundredths of a percent are too much. How hot is best depends on the loads, so rounds differ.
constexpr std::array first_temperatures = {1e-2, 3e-3, 3e-2};
constexpr std::size_t num_stages = 64;
constexpr double cooling = 0.81;  // 1e-2 * 0.81^63 = 2e-8

class Annealer {
 public:
  Annealer(std::span<LoadView> views, const Region& region, const AnnealOptions& options)
      : views_(views),
        any_view_(views.front().packing),
        region_(region),
        options_(options),
        spill_(options.spill, views),
        changes_(static_cast<std::size_t>(any_view_.topology().num_ranks()), 0.0),
        best_(any_view_.row().begin(), any_view_.row().end()),
        best_excess_(excess_of(views, region.ranks, options.objective)) {}

  void run() {
    const std::size_t steps = options_.max_steps / options_.rounds;
    for (std::size_t round = 0; round < options_.rounds && !is_done(); ++round) {
      cool_down(steps, first_temperatures[round % first_temperatures.size()]);
      keep_if_best();
      return_to_best();
    }
  }

 private:
  struct Place {
    Rank rank;
    SlotId slot;
    ExpertId expert;
  };

  [[nodiscard]] bool is_done() const { return best_excess_ <= options_.good_enough; }

  void cool_down(std::size_t steps, double temperature) {
    constexpr std::size_t look_every = 64;
    const std::size_t stage_steps = std::max<std::size_t>(steps / num_stages, 1);
    temperature_ = temperature;
    for (std::size_t step = 1; step <= steps && !is_done(); ++step) {
      try_something();
      if (step % look_every == 0) keep_if_best();
      if (step % stage_steps == 0) temperature_ *= cooling;
    }
  }

  static double energy(double pressure_over_target) {
    const double excess = pressure_over_target - 1.0;
    return excess > 0.0 ? excess * excess : 0.0;
  }
  /// What the energy gains when `rank` takes `load` more.
  static double energy_change(const LoadView& view, Rank rank, double load) {
    const double pressure = view.packing.pressure(rank);
    const double after = pressure + load / view.packing.speed(rank);
    return view.weight * (energy(after / view.target) - energy(pressure / view.target));
  }

  [[nodiscard]] Rank any_rank() { return region_.ranks[random_.below(region_.ranks.size())]; }

  /// The fullest of four under any one view: most choices concern ranks that are above the target.
  [[nodiscard]] Rank a_full_rank() {
    const LoadView& view = views_.size() == 1 ? views_.front() : views_[random_.below(views_.size())];
    Rank full = any_rank();
    for (int i = 0; i < 3; ++i) {
      const Rank other = any_rank();
      if (view.packing.pressure(other) > view.packing.pressure(full)) full = other;
    }
    return full;
  }

  [[nodiscard]] Place any_place(Rank rank) {
    const auto slots = any_view_.topology().slots_of(rank);
    const SlotId slot{slots.first().value() + static_cast<SlotId::rep>(random_.below(slots.size()))};
    return {rank, slot, any_view_.expert_at(slot)};
  }

  [[nodiscard]] bool accepts(double change) {
    return change <= 0.0 || change < temperature_ * random_.waiting_time();
  }

  /// Energy that spilling all load costs, so that the limit is left to the experts for which it helps most. A
  /// share s spilled from ranks of excess x saves about 2 x s per rank, and x falls as the temperature's
  /// root.
  [[nodiscard]] double spill_price() const {
    return static_cast<double>(region_.ranks.size()) * std::sqrt(temperature_);
  }

  void try_something() {
    const Place full = any_place(a_full_rank());
    const Place other = any_place(any_rank());
    if (full.rank == other.rank || full.expert == other.expert) return;
    if (full.expert == no_expert || other.expert == no_expert) return;
    if (any_view_.holds(other.rank, full.expert)) return;
    if (random_.below(2) == 0) {
      try_swap(full, other);
    } else {
      try_recount(full.expert, other);
    }
  }

  void try_swap(const Place& a, const Place& b) {
    if (any_view_.holds(a.rank, b.expert)) return;
    const std::optional<double> spill = spill_.price_swap(a.slot, b.slot);
    if (!spill) return;
    double change = *spill * spill_price();
    for (const LoadView& view : views_) {
      const double transfer = view.packing.share(a.expert) - view.packing.share(b.expert);
      change += energy_change(view, a.rank, -transfer) + energy_change(view, b.rank, transfer);
    }
    if (!accepts(change)) return;
    spill_.swap(a.slot, b.slot);
    for (LoadView& view : views_) view.packing.swap(a.slot, b.slot);
  }

  /// `at.expert` gives its slot to one more replica of `raised`.
  void try_recount(ExpertId raised, const Place& at) {
    if (any_view_.copies(at.expert) < 2) return;
    const std::optional<double> spill = spill_.price_put(at.slot, raised);
    if (!spill) return;
    double change = *spill * spill_price();
    for (const LoadView& view : views_) change += recount_change(view, raised, at);
    if (!accepts(change)) return;
    spill_.put(at.slot, raised);
    for (LoadView& view : views_) view.packing.put(at.slot, raised);
  }

  [[nodiscard]] double recount_change(const LoadView& view, ExpertId raised, const Place& at) {
    const Packing& packing = view.packing;
    const double raised_share = packing.load(raised) / (packing.copies(raised) + 1);
    const double lowered_share = packing.load(at.expert) / (packing.copies(at.expert) - 1);
    touched_.clear();
    change_replicas(packing, raised, raised_share - packing.share(raised));
    change_replicas(packing, at.expert, lowered_share - packing.share(at.expert));
    touch(at.rank, raised_share - lowered_share);
    double change = 0.0;
    for (Rank rank : touched_)
      change += energy_change(view, rank, std::exchange(changes_[rank.index()], 0.0));
    return change;
  }

  void change_replicas(const Packing& packing, ExpertId expert, double load) {
    packing.for_each_replica(expert, [&](SlotId slot) { touch(packing.rank_of(slot), load); });
  }

  /// A rank may come twice; its second turn then finds no change left.
  void touch(Rank rank, double load) {
    touched_.push_back(rank);
    changes_[rank.index()] += load;
  }

  void keep_if_best() {
    const double now = excess_of(views_, region_.ranks, options_.objective);
    if (now >= best_excess_) return;
    best_excess_ = now;
    std::copy(any_view_.row().begin(), any_view_.row().end(), best_.begin());
  }

  void return_to_best() {
    for (LoadView& view : views_) view.packing.reset(best_);
    spill_ = SpillLedger(options_.spill, views_);
  }

  std::span<LoadView> views_;
  const Packing& any_view_;  ///< For all that the views have in common.
  const Region& region_;
  const AnnealOptions& options_;
  SpillLedger spill_;
  double temperature_ = 0.0;
  Random random_;
  std::vector<Rank> touched_;
  std::vector<double> changes_;  ///< By Rank; zero between tries.
  std::vector<ExpertId> best_;
  double best_excess_;
};

}  // namespace

double excess_of(std::span<const LoadView> views, std::span<const Rank> ranks, Objective objective) {
  double excess = 0.0;
  for (const LoadView& view : views) {
    const double of_view = view.packing.pressure(fullest_rank(view.packing, ranks)) / view.target;
    excess = objective == Objective::worst ? std::max(excess, of_view) : excess + view.weight * of_view;
  }
  return excess;
}

void anneal(std::span<LoadView> views, const Region& region, const AnnealOptions& options) {
  Annealer(views, region, options).run();
}

}  // namespace trimtab
