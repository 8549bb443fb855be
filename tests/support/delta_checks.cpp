// SPDX-License-Identifier: Apache-2.0
#include "support/delta_checks.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/row.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

constexpr double rounding = 1e-7;

using Contents = std::map<ExpertId, std::int32_t>;

Contents contents_of(const Placement& placement, LayerId layer, Rank rank, const Topology& topology) {
  Contents contents;
  if (rank.value() >= topology.num_ranks() || !topology.is_alive(rank)) return contents;
  for (SlotId slot : topology.slots_of(rank)) {
    const ExpertId expert = placement.expert_at(layer, slot);
    if (expert != no_expert) ++contents[expert];
  }
  return contents;
}

class LayerCheck {
 public:
  LayerCheck(const DeltaPlan& made, const DeltaCase& given, LayerId layer)
      : made_(made),
        given_(given),
        layer_(layer),
        from_(given.delta.from ? *given.delta.from : given.topology),
        delta_(made.layers[layer.index()]),
        report_(made.plan.layers[layer.index()]) {}

  std::string run() {
    if (delta_.layer != layer_ || report_.layer != layer_) return "another layer";
    for (Rank rank : ids<Rank>(given_.topology.num_ranks())) {
      if (std::string broken = broken_rank(rank); !broken.empty()) return broken;
    }
    if (moves_ != delta_.counts.moves)
      return fmt::format("{} moves, reported {}", moves_, delta_.counts.moves);
    for (auto check : {&LayerCheck::broken_balance, &LayerCheck::broken_limits, &LayerCheck::broken_curve,
                       &LayerCheck::broken_groups}) {
      if (std::string broken = (this->*check)(); !broken.empty()) return broken;
    }
    return "";
  }

 private:
  [[nodiscard]] bool is_by_group() const { return made_.plan.locality == Locality::group_strict; }

  std::string broken_rank(Rank rank) {
    const Contents now = contents_of(made_.plan.placement, layer_, rank, given_.topology);
    const Contents before = contents_of(given_.current, layer_, rank, from_);
    const auto slots = static_cast<std::int32_t>(given_.topology.slots_of(rank).size());
    const std::int32_t experts =
        given_.loads.num_experts() / (is_by_group() ? given_.topology.num_nodes() : 1);
    std::int32_t held = 0;
    std::int32_t repeats = 0;
    for (const auto& [expert, count] : now) {
      held += count;
      const bool was_here = before.contains(expert);
      if (!was_here) moves_ += count;
      const std::int32_t allowed = was_here ? before.at(expert) : 1;
      repeats += std::max(0, count - allowed);
    }
    if (!given_.topology.is_alive(rank)) return "";
    const bool must_be_full = !given_.options.allow_vacant && !report_.is_dense;
    if (must_be_full && held < slots) return fmt::format("rank {} has vacant slots", rank.value());
    if (repeats > std::max(0, slots - experts)) return fmt::format("rank {} repeats experts", rank.value());
    return broken_order(rank, now, before);
  }

  /// As many slots as possible hold what they held.
  std::string broken_order(Rank rank, const Contents& now, const Contents& before) const {
    if (from_ != given_.topology) return "";
    std::int32_t stays = 0;
    for (const auto& [expert, count] : now) {
      if (before.contains(expert)) stays += std::min(count, before.at(expert));
    }
    std::int32_t in_place = 0;
    for (SlotId slot : given_.topology.slots_of(rank)) {
      const ExpertId expert = made_.plan.placement.expert_at(layer_, slot);
      in_place += expert != no_expert && expert == given_.current.expert_at(layer_, slot) ? 1 : 0;
    }
    return stays == in_place ? ""
                             : fmt::format("rank {}: {} stay, {} in place", rank.value(), stays, in_place);
  }

  std::string broken_balance() {
    const double imbalance = imbalance_of(given_.loads, made_.plan.placement, layer_, given_.topology);
    if (std::abs(std::max(1.0, imbalance) - report_.imbalance) > rounding)
      return "imbalance is not as reported";
    if (report_.bound > report_.imbalance) return "bound above the imbalance";
    const double enough = delta_.imbalance_full * (1.0 + given_.delta.within.value_or(0.0));
    const bool is_limited = given_.delta.max_moves || given_.delta.move_budget_bytes;
    if (!is_limited && report_.imbalance > enough + rounding) {
      return fmt::format("imbalance {} > {}", report_.imbalance, enough);
    }
    return "";
  }

  std::string broken_limits() {
    if (given_.delta.max_moves && moves_ > *given_.delta.max_moves) return "more moves than allowed";
    if (moves_ < delta_.required_moves) return "fewer moves than required";
    if (moves_ < delta_.moves_bound) return fmt::format("{} moves < bound {}", moves_, delta_.moves_bound);
    const ChangeCounts& counts = delta_.counts;
    if (counts.intra_node + counts.inter_node + counts.from_source > counts.moves)
      return "more than all moves";
    return "";
  }

  std::string broken_curve() {
    if (delta_.curve.empty() || delta_.curve.front().moves != delta_.required_moves)
      return "no start of curve";
    bool is_on_curve = false;
    for (std::size_t i = 0; i < delta_.curve.size(); ++i) {
      is_on_curve = is_on_curve || delta_.curve[i].moves == moves_;
      if (i == 0) continue;
      const CurvePoint& a = delta_.curve[i - 1];
      const CurvePoint& b = delta_.curve[i];
      if (a.moves >= b.moves || a.imbalance < b.imbalance) return "the curve does not fall";
    }
    return is_on_curve ? "" : "the plan is not on the curve";
  }

  std::string broken_groups() {
    if (!is_by_group() || report_.is_dense) return "";
    return keeps_groups_together(made_.plan.placement.layer(layer_), given_.loads.num_experts(),
                                 given_.options.num_groups, given_.topology)
               ? ""
               : "a group is split";
  }

  const DeltaPlan& made_;
  const DeltaCase& given_;
  LayerId layer_;
  const Topology& from_;
  const LayerDelta& delta_;
  const LayerReport& report_;
  std::int64_t moves_ = 0;
};

}  // namespace

DeltaPlan delta_of(const DeltaCase& given) {
  SerialExecutor executor;
  Result<DeltaPlan> made =
      plan_delta(given.loads, given.current, given.topology, given.options, given.delta, executor);
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

std::string broken_delta(const DeltaPlan& made, const DeltaCase& given) {
  if (const Status live = check_live(made.plan.placement, given.topology); !live) return live.error().message;
  for (LayerId layer : ids<LayerId>(given.loads.num_layers())) {
    const std::string broken = LayerCheck(made, given, layer).run();
    if (!broken.empty()) return fmt::format("layer {}: {}", layer.value(), broken);
  }
  const auto spent = static_cast<std::uint64_t>(total_moves(made)) * given.delta.expert_bytes;
  if (given.delta.move_budget_bytes && spent > *given.delta.move_budget_bytes) return "above the budget";
  return "";
}

double mean_imbalance(const DeltaPlan& made) {
  double sum = 0.0;
  double layers = 0.0;
  for (const LayerReport& report : made.plan.layers) {
    if (report.is_dense) continue;
    sum += report.imbalance;
    layers += 1.0;
  }
  return sum / layers;
}

std::int64_t total_moves(const DeltaPlan& made) {
  std::int64_t moves = 0;
  for (const LayerDelta& layer : made.layers) moves += layer.counts.moves;
  return moves;
}

double share_moved(const DeltaPlan& made) {
  const Placement& placement = made.plan.placement;
  return static_cast<double>(total_moves(made)) /
         (static_cast<double>(placement.num_layers()) * placement.num_slots());
}

}  // namespace trimtab::test
