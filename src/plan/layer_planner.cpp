// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_planner.hpp"

#include <trimtab/core/imbalance.hpp>

#include "plan/exact_imbalance.hpp"
#include "plan/pack.hpp"
#include "plan/replicate.hpp"
#include "plan/spill.hpp"
#include "plan/swap.hpp"
#include "plan/two_per_rank.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Above it a layer is searched by default: swaps alone did not come near the bound.
constexpr double near_enough = 1.0 + 3e-3;
constexpr std::size_t swaps_per_rank = 4;
constexpr std::size_t touch_up_swaps = 2;

std::size_t steps_per_slot(Effort effort) { return effort == Effort::thorough ? 1000 : 120; }
std::size_t pair_steps_per_slot(Effort effort) { return effort == Effort::thorough ? 500 : 40; }

std::size_t rounds_of(Effort effort) { return effort == Effort::thorough ? 9 : 2; }

/// All ranks have two slots and one speed.
bool has_pairs(const Region& region, const Topology& topology) {
  return std::all_of(region.ranks.begin(), region.ranks.end(), [&](Rank rank) {
    return topology.rank(rank).num_slots == 2 &&
           topology.rank(rank).speed == topology.rank(region.ranks.front()).speed;
  });
}

bool is_zero(LayerLoads loads) {
  return std::all_of(loads.begin(), loads.end(), [](double load) { return load == 0.0; });
}

Imbalance measure(LayerLoads loads, Row row, const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, row, topology), topology);
}

}  // namespace

LayerPlanner::LayerPlanner(std::int32_t num_experts, const Topology& topology, const PlanOptions& options,
                           Locality locality)
    : topology_(topology),
      options_(options),
      part_maker_(num_experts, topology, options, locality),
      locality_is_by_group_(locality != Locality::none),
      identity_(identity_row(num_experts, topology, false)),
      live_identity_(identity_row(num_experts, topology, true)),
      identity_is_live_(is_live(identity_, num_experts, topology)),
      identity_is_allowed_(identity_is_live_ && locality != Locality::group_spill &&
                           (locality == Locality::none ||
                            keeps_groups_together(identity_, num_experts, options.num_groups, topology))) {}

LayerReport LayerPlanner::plan(LayerId layer, std::span<const LayerLoads> scenarios,
                               std::span<ExpertId> row) const {
  LayerReport report{.layer = layer};
  std::vector<Scenario> under = loaded(scenarios);
  report.is_dense = under.empty();
  if (options_.shares == ShareMode::exact) report.imbalance_exact = 1.0;
  if (report.is_dense && identity_is_live_) {
    std::copy(identity_.begin(), identity_.end(), row.begin());
  } else if (report.is_dense) {
    plan_one(scenarios.front(), part_maker_.make(scenarios.front()), row);
  } else {
    plan_loaded(under, row, report);
  }
  report.duplicates_on_rank = count_duplicates(row, topology_);
  return report;
}

void LayerPlanner::plan_loaded(std::span<Scenario> under, std::span<ExpertId> row,
                               LayerReport& report) const {
  report.imbalance_before = imbalance_of(under, identity_);
  Parts parts;
  if (options_.shares == ShareMode::exact) {
    report.imbalance_exact = std::max(1.0, plan_exact(under, row, parts));
  } else {
    parts = plan_even(under, row);
  }
  report.imbalance = std::max(1.0, imbalance_of(under, row));
  // even shares are a split; where they are the best one the last bits differ
  if (report.imbalance_exact) report.imbalance_exact = std::min(*report.imbalance_exact, report.imbalance);
  for (const Scenario& scenario : under) {
    if (options_.locality != Locality::group_spill) break;
    report.spill = std::max(report.spill, spilled_share(scenario.loads, row, parts.home, topology_));
  }
  if (under.size() == 1) sharpen_bound(under.front(), report.reached());
  // The bound sums loads in another order than the ranks do; where it is met, rounding must not exceed it.
  report.bound = std::clamp(bound_of(under, options_.shares), 1.0, report.reached());
}

void LayerPlanner::sharpen_bound(Scenario& scenario, double imbalance) const {
  double& bound = options_.shares == ShareMode::exact ? scenario.parts.exact_bound : scenario.parts.bound;
  if (options_.effort == Effort::fast || imbalance * scenario.mean <= bound * near_enough) return;
  bound = part_maker_.sharpen(scenario.loads, options_.shares, bound, imbalance * scenario.mean);
}

std::vector<LayerPlanner::Scenario> LayerPlanner::loaded(std::span<const LayerLoads> scenarios) const {
  std::vector<Scenario> found;
  double weights = 0.0;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    const double weight = options_.weights.empty() ? 1.0 : options_.weights[i];
    if (is_zero(scenarios[i]) || weight == 0.0) continue;
    const double mean = load_of(part_maker_.everything().experts, scenarios[i]) / topology_.total_speed();
    found.push_back({scenarios[i], weight, mean, part_maker_.make(scenarios[i])});
    weights += weight;
  }
  for (Scenario& scenario : found) scenario.weight /= weights;
  return found;
}

void LayerPlanner::plan_one(LayerLoads loads, const Parts& parts, std::span<ExpertId> row) const {
  std::fill(row.begin(), row.end(), no_expert);
  bool was_held_back = false;
  for (const Part& part : parts.parts) was_held_back |= fill(loads, part, parts.bound, row);
  const bool is_fast = options_.effort == Effort::fast;
  if (is_zero(loads) || (is_fast && !was_held_back)) return;
  LoadView view{Packing(loads, topology_, row), parts.bound, 1.0};
  if (is_fast) {
    touch_up(view, parts);
  } else {
    search(std::span(&view, 1), parts);
  }
  std::copy(view.packing.row().begin(), view.packing.row().end(), row.begin());
}

Parts LayerPlanner::plan_even(std::span<const Scenario> scenarios, std::span<ExpertId> row) const {
  Parts parts = scenarios.front().parts;
  if (scenarios.size() > 1) {
    parts = plan_several(scenarios, row);
  } else {
    plan_one(scenarios.front().loads, parts, row);
  }
  keep_identity(scenarios, row);
  return parts;
}

std::vector<double> LayerPlanner::common_loads(std::span<const Scenario> scenarios) const {
  std::vector<double> common(scenarios[0].loads.size(), 0.0);
  for (const Scenario& scenario : scenarios) {
    const double unit = scenario.weight / scenario.mean;
    for (std::size_t e = 0; e < common.size(); ++e) common[e] += unit * scenario.loads[e];
  }
  return common;
}

// Starts from the plan for the mean of the scenarios or for one of them, whichever is best under all.
Parts LayerPlanner::plan_several(std::span<const Scenario> scenarios, std::span<ExpertId> row) const {
  const std::vector<double> common = common_loads(scenarios);
  Parts parts = part_maker_.make(common);
  plan_one(common, parts, row);
  std::vector<ExpertId> other(row.size());
  for (const Scenario& scenario : scenarios) {
    plan_one(scenario.loads, scenario.parts, other);
    if (!(imbalance_of(scenarios, other) < imbalance_of(scenarios, row))) continue;
    std::copy(other.begin(), other.end(), row.begin());
    parts = scenario.parts;
  }
  if (options_.effort == Effort::fast) return parts;
  std::vector<LoadView> views = views_of(scenarios, ShareMode::even, row);
  search(views, parts);
  const Row found = views.front().packing.row();
  std::copy(found.begin(), found.end(), row.begin());
  return parts;
}

// Under the worst scenario all have one target in units of their means, else each its own.
std::vector<LoadView> LayerPlanner::views_of(std::span<const Scenario> scenarios, ShareMode shares,
                                             Row row) const {
  const double bound = bound_of(scenarios, shares);
  std::vector<LoadView> views;
  for (const Scenario& scenario : scenarios) {
    const double target =
        options_.objective == Objective::worst ? bound * scenario.mean : scenario.bound(shares);
    views.push_back({Packing(scenario.loads, topology_, row), target, scenario.weight});
  }
  return views;
}

bool LayerPlanner::fill(LayerLoads loads, const Part& part, double bound, std::span<ExpertId> row) const {
  const Region& region = part.region;
  std::vector<std::int32_t> distinct = part.counts;
  if (options_.effort != Effort::fast && has_pairs(region, topology_) && !is_zero(loads)) {
    distinct = search_pair_counts(loads, region, std::move(distinct), bound * good_enough,
                                  pair_steps_per_slot(options_.effort) * row.size());
  }
  std::vector<std::int32_t> counts = distinct;
  std::vector<Duplicate> duplicates;
  if (!options_.allow_vacant) duplicates = force_duplicates(loads, region, topology_, counts);
  RankContents contents(loads, counts, topology_);
  const bool was_held_back = pack_heaviest_first(contents, region, distinct);
  for (const Duplicate& duplicate : duplicates) contents.add(duplicate.rank, duplicate.expert);
  for (Rank rank : region.ranks) {
    const auto held = contents.on(rank);
    std::copy(held.begin(), held.end(), row.begin() + topology_.slots_of(rank).first().value());
  }
  return was_held_back;
}

// Keeping copies apart may cost a little against packing without that; a swap or two make up for it.
void LayerPlanner::touch_up(LoadView& view, const Parts& parts) const {
  for (const Part& part : parts.parts) {
    improve_by_swaps(view.packing, part.region, view.target, touch_up_swaps);
  }
}

void LayerPlanner::search(std::span<LoadView> views, const Parts& parts) const {
  const bool is_single = views.size() == 1;
  AnnealOptions annealing{.objective = options_.objective,
                          .good_enough = good_enough,
                          .max_steps = steps_per_slot(options_.effort) * views[0].packing.row().size(),
                          .rounds = rounds_of(options_.effort)};
  const double near = options_.effort == Effort::thorough ? good_enough : near_enough;
  const auto swap = [&](const Region& region) {
    if (!is_single) return;
    improve_by_swaps(views[0].packing, region, views[0].target * good_enough,
                     swaps_per_rank * region.ranks.size());
  };
  for (const Part& part : parts.parts) {
    const Region& region = part.region;
    swap(region);
    if (is_single && has_pairs(region, topology_)) continue;
    if (excess_of(views, region.ranks, options_.objective) <= near) continue;
    anneal(views, region, annealing);
    swap(region);
  }
  const Region& everything = part_maker_.everything();
  if (parts.parts.size() == 1 || excess_of(views, everything.ranks, options_.objective) <= near) return;
  if (options_.locality != Locality::group_spill) return;
  const SpillLimit limit{parts.home, options_.spill};
  annealing.spill = &limit;
  anneal(views, everything, annealing);
}

// Heaviest first is a heuristic: on ranks of unequal speed, or by luck, the identity may be better.
void LayerPlanner::keep_identity(std::span<const Scenario> scenarios, std::span<ExpertId> row) const {
  if (!identity_is_allowed_ || imbalance_of(scenarios, live_identity_) >= imbalance_of(scenarios, row))
    return;
  if (count_duplicates(live_identity_, topology_) > count_duplicates(row, topology_)) return;
  std::copy(live_identity_.begin(), live_identity_.end(), row.begin());
}

template <class Value>
double LayerPlanner::by_objective(std::span<const Scenario> scenarios, Value value) const {
  double result = 0.0;
  for (const Scenario& scenario : scenarios) {
    const double one = value(scenario);
    result = options_.objective == Objective::worst ? std::max(result, one) : result + scenario.weight * one;
  }
  return result;
}

double LayerPlanner::imbalance_of(std::span<const Scenario> scenarios, Row row) const {
  return by_objective(scenarios, [&](const Scenario& scenario) {
    return measure(scenario.loads, row, topology_).max_over_mean();
  });
}

double LayerPlanner::exact_imbalance_of(std::span<const Scenario> scenarios, Row row) const {
  return by_objective(
      scenarios, [&](const Scenario& scenario) { return exact_imbalance(scenario.loads, row, topology_); });
}

double LayerPlanner::bound_of(std::span<const Scenario> scenarios, ShareMode shares) const {
  return by_objective(scenarios,
                      [&](const Scenario& scenario) { return scenario.bound(shares) / scenario.mean; });
}

}  // namespace trimtab
