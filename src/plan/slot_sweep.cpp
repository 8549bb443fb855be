// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/core/imbalance.hpp>
#include <trimtab/plan/slot_sweep.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "plan/exact_imbalance.hpp"

namespace trimtab {
namespace {

Topology with_slots(const Topology& topology, std::int32_t num_slots) {
  const std::int32_t num_ranks = topology.num_ranks();
  std::vector<RankInfo> ranks;
  for (Rank rank : ids<Rank>(num_ranks)) {
    ranks.push_back(topology.rank(rank));
    ranks.back().num_slots = num_slots / num_ranks + (rank.value() < num_slots % num_ranks ? 1 : 0);
  }
  Result<Topology> made = Topology::make(std::move(ranks));
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

double even_imbalance(LayerLoads loads, Row row, const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, row, topology), topology).max_over_mean();
}

/// Layers in parallel, scenarios one by one.
template <class Measure>
SweepFigure measure(std::span<const LoadMatrix> scenarios, const Placement& placement, Executor& executor,
                    Measure imbalance_of) {
  SweepFigure figure;
  std::vector<double> of_layer(static_cast<std::size_t>(placement.num_layers()));
  for (const LoadMatrix& loads : scenarios) {
    executor.for_each_index(of_layer.size(), [&](std::size_t i) {
      const LayerId layer{static_cast<LayerId::rep>(i)};
      of_layer[i] = loads.is_dense(layer) ? 0.0 : imbalance_of(loads.layer(layer), placement.layer(layer));
    });
    double sum = 0.0;
    double layers = 0.0;
    for (const double imbalance : of_layer) {
      sum += imbalance;
      layers += imbalance > 0.0 ? 1.0 : 0.0;
      figure.worst = std::max(figure.worst, imbalance);
    }
    if (layers > 0.0) figure.mean = std::max(figure.mean, sum / layers);
  }
  return figure;
}

struct Figures {
  SweepFigure even;
  SweepFigure exact;
};

Result<Figures> plan_and_measure(std::span<const LoadMatrix> scenarios, const Topology& topology,
                                 PlanOptions options, ShareMode shares, Executor& executor) {
  options.shares = shares;
  Result<Plan> plan = plan_rebalance(scenarios, topology, options, executor);
  if (!plan) return failure(std::move(plan));
  const auto with = [&](auto imbalance) {
    return measure(scenarios, plan->placement, executor,
                   [&](LayerLoads loads, Row row) { return imbalance(loads, row, topology); });
  };
  return Figures{with(even_imbalance), with(exact_imbalance)};
}

Result<SlotSweepPoint> make_point(std::span<const LoadMatrix> scenarios, const Topology& topology,
                                  const PlanOptions& options, Executor& executor) {
  SlotSweepPoint point;
  point.slots = topology.num_slots();
  auto for_even = plan_and_measure(scenarios, topology, options, ShareMode::even, executor);
  if (!for_even) return failure(std::move(for_even));
  auto for_exact = plan_and_measure(scenarios, topology, options, ShareMode::exact, executor);
  if (!for_exact) return failure(std::move(for_exact));
  point.redundant = topology.num_live_slots() - scenarios.front().num_experts();
  point.even = for_even->even;
  point.even_split = for_even->exact;
  point.exact = for_exact->exact;
  point.exact_even = for_exact->even;
  return point;
}

Status check_range(const SlotRange& range) {
  if (range.first >= 1 && range.last >= range.first && range.step >= 1) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("slots {}:{}:{}: not an ascending range of numbers from 1 with a step from 1",
                             range.first, range.last, range.step));
}

}  // namespace

Result<std::vector<SlotSweepPoint>> sweep_slots(std::span<const LoadMatrix> scenarios, const Topology& ranks,
                                                const SlotRange& range, const PlanOptions& options,
                                                Executor& executor) {
  if (Status ok = check_range(range); !ok) return failure(std::move(ok));
  std::vector<SlotSweepPoint> points;
  for (std::int64_t slots = range.first; slots <= range.last; slots += range.step) {
    const Topology topology = with_slots(ranks, static_cast<std::int32_t>(slots));
    Result<SlotSweepPoint> point = make_point(scenarios, topology, options, executor);
    if (!point) {
      return failure(point.error().code, fmt::format("{} slots: {}", slots, point.error().message));
    }
    points.push_back(*point);
  }
  return points;
}

}  // namespace trimtab
