// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/delta.hpp>

#include "plan/delta_bound.hpp"
#include "plan/delta_budget.hpp"
#include "plan/delta_layer.hpp"
#include "plan/delta_start.hpp"
#include "plan/exact_imbalance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trimtab {
namespace {

constexpr double rounding = 1e-9;

Status check_options(const DeltaOptions& delta) {
  if (delta.max_moves && *delta.max_moves < 0) {
    return failure(Errc::invalid_argument, fmt::format("max moves {} < 0", *delta.max_moves));
  }
  if (delta.within && !(std::isfinite(*delta.within) && *delta.within >= 0.0)) {
    return failure(Errc::invalid_argument, fmt::format("within {} is not a share >= 0", *delta.within));
  }
  if (delta.move_budget_bytes && delta.expert_bytes == 0) {
    return failure(
        Errc::invalid_argument,
        fmt::format("a move budget of {} bytes needs the bytes of an expert", *delta.move_budget_bytes));
  }
  return {};
}

Status check_shapes(const LoadMatrix& loads, const Placement& current, const Topology& from) {
  if (current.num_layers() != loads.num_layers() || current.num_experts() != loads.num_experts()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("the current placement has {} layers of {} experts, the loads {} of {}",
                    current.num_layers(), current.num_experts(), loads.num_layers(), loads.num_experts()));
  }
  if (current.num_slots() != from.num_slots()) {
    return failure(Errc::invalid_argument,
                   fmt::format("the current placement has {} slots, its ranks have {}", current.num_slots(),
                               from.num_slots()));
  }
  return {};
}

/// One layer between its search and the choice of what to take of it.
struct SearchedLayer {
  DeltaCurve curve;
  std::vector<Waypoint> front;
  std::vector<ExpertId> carried;
};

class DeltaPlanner {
 public:
  DeltaPlanner(const LoadMatrix& loads, const Placement& current, const Topology& topology,
               const PlanOptions& options, const DeltaOptions& delta, Plan full)
      : loads_(loads),
        current_(current),
        topology_(topology),
        from_(delta.from ? *delta.from : topology),
        options_(options),
        delta_(delta),
        full_(std::move(full)),
        searched_(full_.layers.size()),
        deltas_(full_.layers.size()) {
    is_by_group_ = full_.locality == Locality::group_strict && topology.num_nodes() > 1;
  }

  Result<DeltaPlan> run(Executor& executor) {
    executor.for_each_index(searched_.size(), [&](std::size_t i) { search(i); });
    if (Status ok = check_required_moves(); !ok) return failure(std::move(ok));
    const std::vector<std::size_t> taken = choose();
    const auto width = static_cast<std::size_t>(topology_.num_slots());
    std::vector<ExpertId> map(width * searched_.size());
    executor.for_each_index(searched_.size(), [&](std::size_t i) {
      finish(i, taken[i], std::span(map).subspan(i * width, width));
    });
    Result<Placement> placement =
        Placement::make(loads_.num_layers(), topology_.num_slots(), loads_.num_experts(), std::move(map));
    TRIMTAB_ASSERT(placement.has_value());
    full_.placement = *std::move(placement);
    return DeltaPlan{std::move(full_), std::move(deltas_)};
  }

 private:
  [[nodiscard]] static LayerId layer_of(std::size_t i) { return LayerId{static_cast<LayerId::rep>(i)}; }
  [[nodiscard]] RankedRow before(std::size_t i) const { return {current_.layer(layer_of(i)), from_}; }
  [[nodiscard]] double mean_pressure(std::size_t i) const {
    return loads_.total(layer_of(i)) / topology_.total_speed();
  }
  [[nodiscard]] Imbalance imbalance_of(std::size_t i, Row row) const {
    return compute_imbalance(compute_rank_loads(loads_.layer(layer_of(i)), row, topology_), topology_);
  }
  [[nodiscard]] bool is_fine() const {
    return delta_.fine_curve || delta_.max_moves || delta_.move_budget_bytes;
  }

  void search(std::size_t i) {
    const Holders holders(before(i).row, loads_.num_experts(), from_);
    const Row full = full_.placement.layer(layer_of(i));
    const double full_pressure = imbalance_of(i, full).max;
    LayerDeltaPlanner planner({.loads = loads_.layer(layer_of(i)),
                               .topology = topology_,
                               .before = before(i),
                               .holders = holders,
                               .full = full,
                               .full_pressure = full_pressure,
                               .target = full_pressure * (1.0 + delta_.within.value_or(0.0)),
                               .num_groups = is_by_group_ ? options_.num_groups : 0,
                               .may_leave_vacant = options_.allow_vacant,
                               .is_fine = is_fine()});
    SearchedLayer& layer = searched_[i];
    layer.curve = planner.run();
    layer.front = layer.curve.front();
    layer.carried.assign(planner.carried_over().begin(), planner.carried_over().end());
    describe(i, full_pressure);
  }

  void describe(std::size_t i, double full_pressure) {
    LayerDelta& delta = deltas_[i];
    const double mean = mean_pressure(i);
    const auto to_imbalance = [&](double pressure) {
      return mean > 0.0 ? std::max(1.0, pressure / mean) : 1.0;
    };
    delta.layer = layer_of(i);
    delta.imbalance_from = to_imbalance(imbalance_of(i, searched_[i].carried).max);
    delta.imbalance_full = to_imbalance(full_pressure);
    for (const Waypoint& point : searched_[i].front) {
      delta.curve.push_back({point.moves, to_imbalance(point.pressure)});
    }
    delta.required_moves = delta.curve.front().moves;
  }

  Status check_required_moves() const {
    std::int64_t total = 0;
    for (const LayerDelta& delta : deltas_) {
      total += delta.required_moves;
      if (delta_.max_moves && delta.required_moves > *delta_.max_moves) {
        return failure(Errc::infeasible,
                       fmt::format("layer {}: no placement is valid before {} moves > {} allowed",
                                   delta.layer.value(), delta.required_moves, *delta_.max_moves));
      }
    }
    if (delta_.move_budget_bytes && total > moves_in_budget()) {
      return failure(Errc::infeasible,
                     fmt::format("no placement is valid before {} moves of {} bytes > budget {}", total,
                                 delta_.expert_bytes, *delta_.move_budget_bytes));
    }
    return {};
  }

  [[nodiscard]] std::int64_t moves_in_budget() const {
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    return static_cast<std::int64_t>(std::min(most, *delta_.move_budget_bytes / delta_.expert_bytes));
  }

  /// The last point of a layer that may be taken: the first that is even enough, within `max_moves`.
  [[nodiscard]] std::size_t last_wanted(const LayerDelta& delta) const {
    const double enough = delta.imbalance_full * (1.0 + delta_.within.value_or(0.0)) * (1.0 + rounding);
    std::size_t last = 0;
    while (last + 1 < delta.curve.size() && delta.curve[last].imbalance > enough &&
           (!delta_.max_moves || delta.curve[last + 1].moves <= *delta_.max_moves)) {
      ++last;
    }
    return last;
  }

  [[nodiscard]] std::vector<std::size_t> choose() const {
    std::vector<PricedCurve> curves;
    for (const LayerDelta& delta : deltas_) curves.push_back({delta.curve, last_wanted(delta)});
    if (delta_.move_budget_bytes) return spend_moves(curves, moves_in_budget());
    std::vector<std::size_t> taken;
    taken.reserve(curves.size());
    for (const PricedCurve& curve : curves) taken.push_back(curve.last);
    return taken;
  }

  void finish(std::size_t i, std::size_t taken, std::span<ExpertId> row) {
    const std::vector<ExpertId> made = searched_[i].curve.row_at(searched_[i].front[taken]);
    std::copy(made.begin(), made.end(), row.begin());
    align_row(before(i), row, topology_);
    const Holders holders(before(i).row, loads_.num_experts(), from_);
    deltas_[i].counts = diff_rows(layer_of(i), before(i), holders, {row, topology_}).counts;
    const Imbalance reached = imbalance_of(i, row);
    LayerReport& report = full_.layers[i];
    report.imbalance = std::max(1.0, reached.max_over_mean());
    if (report.imbalance_exact) {
      const double exact = exact_imbalance(loads_.layer(layer_of(i)), row, topology_);
      report.imbalance_exact = std::clamp(exact, 1.0, report.imbalance);
    }
    report.bound = std::min(report.bound, report.reached());
    report.duplicates_on_rank = count_duplicates(row, topology_);
    deltas_[i].moves_bound = bound_on_moves(i, holders, row);
    searched_[i] = {};
  }

  [[nodiscard]] std::int32_t bound_on_moves(std::size_t i, const Holders& holders, Row made) const {
    const Row carried = searched_[i].carried;
    const std::int32_t experts = loads_.num_experts();
    DeltaRules rules{.home = {},
                     .may_leave_vacant = options_.allow_vacant,
                     .may_repeat = adds_second_copies(carried, made, topology_)};
    std::vector<NodeId> home;
    if (is_by_group_ && is_live(carried, experts, topology_) &&
        keeps_groups_together(carried, experts, options_.num_groups, topology_)) {
      home = expert_homes(nearest_homes(carried, experts, options_.num_groups, topology_), experts);
      rules.home = home;
      rules.group_size = static_cast<std::size_t>(experts / options_.num_groups);
    }
    return moves_bound(loads_.layer(layer_of(i)), carried, holders, topology_, imbalance_of(i, made).max,
                       rules);
  }

  const LoadMatrix& loads_;
  const Placement& current_;
  const Topology& topology_;
  const Topology& from_;
  const PlanOptions& options_;
  const DeltaOptions& delta_;
  Plan full_;
  bool is_by_group_ = false;
  std::vector<SearchedLayer> searched_;
  std::vector<LayerDelta> deltas_;
};

}  // namespace

Result<DeltaPlan> plan_delta(const LoadMatrix& loads, const Placement& current, const Topology& topology,
                             const PlanOptions& options, const DeltaOptions& delta, Executor& executor) {
  if (Status ok = check_options(delta); !ok) return failure(std::move(ok));
  if (Status ok = check_shapes(loads, current, delta.from ? *delta.from : topology); !ok) {
    return failure(std::move(ok));
  }
  Result<Plan> full = plan_rebalance(loads, topology, options, executor);
  if (!full) return failure(std::move(full));
  if (full->locality != Locality::none && full->locality != Locality::group_strict) {
    return failure(Errc::unavailable,
                   fmt::format("no delta plans under the locality {}", to_string(full->locality)));
  }
  return DeltaPlanner(loads, current, topology, options, delta, *std::move(full)).run(executor);
}

}  // namespace trimtab
