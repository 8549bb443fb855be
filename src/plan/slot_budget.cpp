// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/slot_budget.hpp>

#include <fmt/format.h>

#include "plan/choose_widths.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace trimtab {
namespace {

/// Gains below this share of the mean are not worth another width.
constexpr double tolerance = 1e-3;
/// So many widths in a row without such a gain end a curve.
constexpr std::size_t patience = 3;

Topology with_width(const Topology& topology, std::int32_t width) {
  std::vector<RankInfo> ranks;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    ranks.push_back(topology.rank(rank));
    ranks.back().num_slots = width;
  }
  Result<Topology> made = Topology::make(std::move(ranks));
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

std::int32_t count_live(const Topology& topology) {
  std::int32_t live = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) live += topology.is_alive(rank) ? 1 : 0;
  return live;
}

LoadMatrix only(const LoadMatrix& loads, std::span<const LayerId> layers) {
  std::vector<double> values;
  for (LayerId layer : layers) {
    values.insert(values.end(), loads.layer(layer).begin(), loads.layer(layer).end());
  }
  Result<LoadMatrix> made =
      LoadMatrix::make(static_cast<std::int32_t>(layers.size()), loads.num_experts(), std::move(values));
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

/// One call of plan_slot_budget. Width: slots of a layer on each live rank.
class BudgetPlanner {
 public:
  BudgetPlanner(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options,
                Executor& executor)
      : loads_(loads),
        topology_(topology),
        options_(options),
        executor_(executor),
        num_live_(count_live(topology)) {
    for (LayerId layer : ids<LayerId>(loads.num_layers())) {
      (loads.is_dense(layer) ? dense_ : layers_).push_back(layer);
    }
  }

  Result<SlotBudgetPlan> run(std::int64_t total_slots) {
    if (Status found = find_narrowest(); !found) return failure(std::move(found));
    const auto num_layers = static_cast<std::int64_t>(layers_.size());
    const std::int64_t least = num_layers * narrowest_ * num_live_;
    if (total_slots < least) {
      return failure(
          Errc::infeasible,
          fmt::format("{} slots in total < {}: {} layers with {} slots on each of {} live ranks "
                      "for {} experts",
                      total_slots, least, num_layers, narrowest_, num_live_, loads_.num_experts()));
    }
    const std::int64_t steps = (total_slots - least) / num_live_;
    if (Status drawn = draw_curves(steps); !drawn) return failure(std::move(drawn));
    return assemble(choose_widths(curves_, static_cast<std::size_t>(steps)));
  }

 private:
  Result<Plan> plan(std::span<const LayerId> layers, std::int32_t width) {
    return plan_rebalance(only(loads_, layers), with_width(topology_, width), options_, executor_);
  }

  /// The least width that plan_rebalance takes: under group_strict the smallest node decides.
  Status find_narrowest() {
    const std::int32_t num_experts = loads_.num_experts();
    const std::vector<LayerId> one{LayerId{0}};
    for (narrowest_ = (num_experts + num_live_ - 1) / num_live_;; ++narrowest_) {
      Result<Plan> tried = plan(one, narrowest_);
      if (tried) return {};
      const bool may_grow = tried.error().code == Errc::infeasible && narrowest_ < num_experts;
      if (!may_grow) return failure(std::move(tried));
    }
  }

  /// Costs of each layer by width, until they stop falling; and at the width that all layers could have.
  Status draw_curves(std::int64_t steps) {
    curves_.assign(layers_.size(), {});
    std::vector<std::size_t> open(layers_.size());
    std::iota(open.begin(), open.end(), std::size_t{0});
    for (std::int64_t step = 0; step <= steps && !open.empty(); ++step) {
      const auto width = static_cast<std::int32_t>(narrowest_ + step);
      if (Status drawn = draw_points(open, width); !drawn) return drawn;
      if (width >= loads_.num_experts()) break;
      std::erase_if(open, [&](std::size_t i) { return is_flat(i); });
    }
    const std::int64_t common = steps / std::max<std::int64_t>(1, std::ssize(layers_));
    return draw_common(
        static_cast<std::size_t>(std::min<std::int64_t>(common, loads_.num_experts() - narrowest_)));
  }

  /// A curve that was given up as flat might fall there after all.
  Status draw_common(std::size_t step) {
    std::vector<std::size_t> given_up;
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      if (curves_[i].size() > step || is_even(i)) continue;
      curves_[i].resize(step, curves_[i].back());
      given_up.push_back(i);
    }
    return given_up.empty() ? Status{} : draw_points(given_up, narrowest_ + static_cast<std::int32_t>(step));
  }

  Status draw_points(std::span<const std::size_t> open, std::int32_t width) {
    std::vector<LayerId> layers;
    for (std::size_t i : open) layers.push_back(layers_[i]);
    Result<Plan> planned = plan(layers, width);
    if (!planned) return failure(std::move(planned));
    for (std::size_t n = 0; n < open.size(); ++n) {
      curves_[open[n]].push_back(planned->layers[n].reached() * mean(open[n]));
    }
    return {};
  }

  [[nodiscard]] double mean(std::size_t i) const {
    return loads_.total(layers_[i]) / topology_.total_speed();
  }

  [[nodiscard]] bool is_even(std::size_t i) const {
    return *std::min_element(curves_[i].begin(), curves_[i].end()) <= mean(i) * (1.0 + tolerance);
  }

  [[nodiscard]] bool is_flat(std::size_t i) const {
    const std::vector<double>& curve = curves_[i];
    if (is_even(i)) return true;
    if (curve.size() <= patience) return false;
    const auto recent = curve.end() - static_cast<std::ptrdiff_t>(patience);
    return *std::min_element(recent, curve.end()) >=
           *std::min_element(curve.begin(), recent) - mean(i) * tolerance;
  }

  Result<SlotBudgetPlan> assemble(const WidthChoice& choice) {
    const std::vector<SlotBudgetPoint> curve = make_curve(choice);
    const std::int64_t least = static_cast<std::int64_t>(layers_.size()) * narrowest_ * num_live_;
    const std::int64_t total = curve.back().total_slots;
    const std::vector<std::size_t> steps =
        steps_of(choice, static_cast<std::size_t>((total - least) / num_live_));
    const std::size_t widest = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
    const std::int32_t width = narrowest_ + static_cast<std::int32_t>(widest);
    std::map<std::int32_t, std::vector<LayerId>> layers_of_width;
    layers_of_width[width] = dense_;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      layers_of_width[narrowest_ + static_cast<std::int32_t>(steps[i])].push_back(layers_[i]);
    }
    return merge(layers_of_width, width, curve);
  }

  /// Ends where what is left to gain is below the tolerance.
  std::vector<SlotBudgetPoint> make_curve(const WidthChoice& choice) const {
    std::vector<SlotBudgetPoint> curve;
    for (std::size_t step = 0; step < choice.least_cost.size(); ++step) {
      if (!curve.empty() && choice.least_cost[step] >= curve.back().max_load_sum) continue;
      const auto slots =
          static_cast<std::int64_t>(layers_.size()) * narrowest_ + static_cast<std::int64_t>(step);
      curve.push_back({slots * num_live_, choice.least_cost[step]});
    }
    double means = 0.0;
    for (std::size_t i = 0; i < layers_.size(); ++i) means += mean(i);
    const double enough = curve.back().max_load_sum + tolerance * means;
    while (curve.size() > 1 && curve[curve.size() - 2].max_load_sum <= enough) curve.pop_back();
    return curve;
  }

  Result<SlotBudgetPlan> merge(const std::map<std::int32_t, std::vector<LayerId>>& layers_of_width,
                               std::int32_t widest, std::vector<SlotBudgetPoint> curve) {
    const Topology topology = with_width(topology_, widest);
    const auto num_slots = static_cast<std::size_t>(topology.num_slots());
    const auto num_layers = static_cast<std::size_t>(loads_.num_layers());
    std::vector<ExpertId> map(num_layers * num_slots, no_expert);
    std::vector<LayerReport> reports(num_layers);
    std::vector<std::int32_t> slots(num_layers, 0);
    Locality locality = options_.locality;
    for (const auto& [width, layers] : layers_of_width) {
      if (layers.empty()) continue;
      Result<Plan> part = plan(layers, width);
      if (!part) return failure(std::move(part));
      locality = part->locality;
      for (std::size_t n = 0; n < layers.size(); ++n) {
        const std::size_t i = layers[n].index();
        widen(part->placement.layer(LayerId{static_cast<LayerId::rep>(n)}), width, widest,
              std::span(map).subspan(i * num_slots, num_slots));
        reports[i] = part->layers[n];
        reports[i].layer = layers[n];
        slots[i] = reports[i].is_dense ? 0 : width * num_live_;
      }
    }
    Result<Placement> placement =
        Placement::make(loads_.num_layers(), topology.num_slots(), loads_.num_experts(), std::move(map));
    TRIMTAB_ASSERT(placement.has_value());
    const std::int64_t total = curve.back().total_slots;
    return SlotBudgetPlan{topology, Plan{*std::move(placement), std::move(reports), locality},
                          std::move(slots), total, std::move(curve)};
  }

  /// Each rank's slots first, the rest of its `widest` vacant.
  static void widen(std::span<const ExpertId> row, std::int32_t width, std::int32_t widest,
                    std::span<ExpertId> out) {
    const auto from = static_cast<std::size_t>(width);
    const auto to = static_cast<std::size_t>(widest);
    for (std::size_t slot = 0; slot < row.size(); ++slot) out[slot / from * to + slot % from] = row[slot];
  }

  const LoadMatrix& loads_;
  const Topology& topology_;
  const PlanOptions& options_;
  Executor& executor_;
  std::int32_t num_live_;
  std::int32_t narrowest_ = 0;
  std::vector<LayerId> layers_;  ///< That are not dense.
  std::vector<LayerId> dense_;
  std::vector<std::vector<double>> curves_;  ///< By place in layers_: largest load / speed by width.
};

}  // namespace

Result<SlotBudgetPlan> plan_slot_budget(const LoadMatrix& loads, const Topology& topology,
                                        std::int64_t total_slots, const PlanOptions& options,
                                        Executor& executor) {
  return BudgetPlanner(loads, topology, options, executor).run(total_slots);
}

}  // namespace trimtab
