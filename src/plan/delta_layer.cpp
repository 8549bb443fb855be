// SPDX-License-Identifier: Apache-2.0
#include "plan/delta_layer.hpp"

#include "plan/delta_start.hpp"
#include "plan/relabel.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace trimtab {
namespace {

/// What bringing one more rank below the limit is worth, in shares of the limit. Much of it takes fewest
/// moves but may stop short, so it is reduced when a search sticks; a tight limit is reached better with
/// little of it. Measured: docs/design/0007-delta-plans.md.
constexpr std::array few_moves{0.05, 0.01, 0.0};
constexpr std::array tight_limit{0.003, 0.0};
constexpr double tight = 0.005;
constexpr std::array on_the_way{0.01, 0.0};
/// Balances on the way, each half as far from the target as the one before.
constexpr int max_milestones = 6;
constexpr double nearest_milestone = 0.003;
constexpr double rounding = 1e-10;

/// A search that needs more goes round in circles.
std::size_t max_steps(const Topology& topology) {
  return static_cast<std::size_t>(topology.num_slots()) / 2 + 64;
}

/// The same under a bonus that is to be reduced.
std::size_t max_steps_before_reducing(const Topology& topology) {
  return static_cast<std::size_t>(topology.num_slots()) / 8;
}

std::vector<ExpertId> lost_experts(const Packing& packing, LayerLoads loads) {
  std::vector<ExpertId> lost;
  for (ExpertId e : ids<ExpertId>(loads.size())) {
    if (packing.copies(e) == 0) lost.push_back(e);
  }
  std::stable_sort(lost.begin(), lost.end(),
                   [&](ExpertId a, ExpertId b) { return loads[a.index()] > loads[b.index()]; });
  return lost;
}

std::vector<std::int32_t> counts_in(Row row, std::size_t num_experts) {
  std::vector<std::int32_t> counts(num_experts, 0);
  for (ExpertId expert : row) {
    if (expert != no_expert) ++counts[expert.index()];
  }
  return counts;
}

}  // namespace

LayerDeltaPlanner::LayerDeltaPlanner(const DeltaTask& task)
    : task_(task),
      limit_(task.target * (1.0 + rounding)),
      has_room_(task.topology.num_slots() >= 3 * task.topology.num_ranks()),
      carried_(carry_over(task.before, task.loads, task.topology)) {}

DeltaCurve LayerDeltaPlanner::run() {
  // A layer without load stays as it is, in groups or not.
  if (task_.num_groups > 0 && limit_ > 0.0) {
    search_by_group();
  } else {
    search_under({});
  }
  if (!is_reached()) end_in_full();
  return std::move(curve_);
}

/// Whether little more imbalance than that of the full re-plan is asked for.
bool LayerDeltaPlanner::is_tight() const { return task_.target < task_.full_pressure * (1.0 + tight); }

void LayerDeltaPlanner::search_by_group() {
  const auto num_experts = static_cast<std::int32_t>(task_.loads.size());
  const GroupHomes nearest = nearest_homes(carried_, num_experts, task_.num_groups, task_.topology);
  search_under(expert_homes(nearest, num_experts));
  if (is_reached()) return;
  const std::vector<double> loads = group_loads_of(task_.loads, task_.num_groups);
  for (const GroupHomes& homes : level_homes(nearest, loads, task_.topology, limit_)) {
    const bool can_reach = node_pressure(homes, loads, task_.topology) <= limit_;
    if (can_reach || task_.is_fine) search_under(expert_homes(homes, num_experts));
    if (is_reached()) return;
  }
  relabelled_ = relabel_ranks(task_.full, task_.holders, task_.topology, true);
  search_under(
      expert_homes(nearest_homes(relabelled_, num_experts, task_.num_groups, task_.topology), num_experts));
}

void LayerDeltaPlanner::search_under(std::span<const NodeId> home) {
  const DeltaLayer layer{task_.loads, task_.topology, task_.holders, home};
  const std::vector<ExpertId> start = make_valid(layer);
  if (limit_ <= 0.0) return;
  const double pressure = DeltaSearch(layer, start, {limit_}).max_pressure();
  if (pressure <= limit_) return;
  double excess = pressure / limit_ - 1.0;
  for (int i = 0; task_.is_fine && i < max_milestones; ++i) {
    excess /= 2.0;
    if (excess < nearest_milestone) break;
    search(layer, start, limit_ * (1.0 + excess), on_the_way);
  }
  search(layer, start, limit_, few_moves);
  if (!is_reached() || is_tight()) search(layer, start, limit_, tight_limit);
  if (!is_reached() && has_room_) search(layer, start, limit_, on_the_way);
  if (is_reached()) return;
  search_with_counts_of_full(layer, start);
  if (!is_reached() || has_room_) search_by_squares(layer, start);
}

/// Places experts without a live replica and, unless they may stay so, fills vacant slots.
std::vector<ExpertId> LayerDeltaPlanner::make_valid(const DeltaLayer& layer) {
  std::vector<ExpertId> row = carried_;
  vacate_strangers(row, layer.home, task_.topology);
  const double mean =
      std::accumulate(task_.loads.begin(), task_.loads.end(), 0.0) / task_.topology.total_speed();
  DeltaSearch search(layer, row, {mean > 0.0 ? mean : 1.0, true, 0.0});
  curve_.begin(row);
  for (ExpertId expert : lost_experts(search.packing(), task_.loads)) {
    if (!search.place(expert)) break;
  }
  for (SlotId slot : ids<SlotId>(row.size())) {
    const bool is_vacant = search.packing().expert_at(slot) == no_expert && task_.topology.is_alive(slot);
    if (is_vacant && !task_.may_leave_vacant) search.fill(slot);
  }
  if (lost_experts(search.packing(), task_.loads).empty()) curve_.note(search);
  curve_.end(search);
  const Row made = search.packing().row();
  return {made.begin(), made.end()};
}

void LayerDeltaPlanner::walk(DeltaSearch& search, std::size_t max_steps, bool may_change_counts) {
  for (std::size_t i = 0; i < max_steps && search.step(may_change_counts); ++i) curve_.note(search);
}

void LayerDeltaPlanner::search(const DeltaLayer& layer, Row start, double limit,
                               std::span<const double> bonuses) {
  DeltaSearch search(layer, start, {limit, false, bonuses.front()});
  curve_.begin(start);
  for (double bonus : bonuses.first(bonuses.size() - 1)) {
    search.set_bonus(bonus);
    walk(search, max_steps_before_reducing(task_.topology), true);
  }
  search.set_bonus(bonuses.back());
  walk(search, max_steps(task_.topology), true);
  curve_.end(search);
}

/// Few slots per rank leave no change that helps by itself until the counts are right.
void LayerDeltaPlanner::search_with_counts_of_full(const DeltaLayer& layer, Row start) {
  DeltaSearch search(layer, start, {limit_, false, few_moves[1]});
  curve_.begin(start);
  const std::vector<std::int32_t> counts = counts_in(task_.full, task_.loads.size());
  while (search.step_towards(counts)) curve_.note(search);
  walk(search, max_steps(task_.topology), false);
  curve_.end(search);
}

void LayerDeltaPlanner::search_by_squares(const DeltaLayer& layer, Row start) {
  DeltaSearch search(layer, start, {limit_, true, 0.0});
  curve_.begin(start);
  walk(search, max_steps(task_.topology), true);
  curve_.end(search);
}

void LayerDeltaPlanner::end_in_full() {
  if (relabelled_.empty()) {
    relabelled_ = relabel_ranks(task_.full, task_.holders, task_.topology, task_.num_groups > 0);
  }
  curve_.note_row(relabelled_, count_moves(relabelled_, task_.holders, task_.topology), task_.full_pressure);
}

}  // namespace trimtab
