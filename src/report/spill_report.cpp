// SPDX-License-Identifier: Apache-2.0
#include "report/spill_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/plan_report.hpp"

namespace trimtab {
namespace {

constexpr double limits[] = {0.0, 0.02, 0.05, 0.1, 0.2, 1.0};

}  // namespace

NodesSummary summarize_nodes(const Plan& plan, const LoadMatrix& loads, const Topology& topology,
                             const GroupLimit& limit) {
  NodesSummary summary;
  std::int32_t layers = 0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) continue;
    const auto nodes =
        compute_nodes_per_token(loads.layer(layer), plan.placement.layer(layer), topology, limit);
    summary.mean += nodes.mean;
    summary.max = std::max(summary.max, nodes.max);
    ++layers;
  }
  if (layers > 0) summary.mean /= layers;
  return summary;
}

Result<std::vector<SpillPoint>> compute_spill_curve(std::span<const LoadMatrix> scenarios,
                                                    const Topology& topology, PlanOptions options,
                                                    const std::optional<GroupLimit>& group_limit,
                                                    Executor& executor) {
  options.locality = Locality::group_spill;
  std::vector<SpillPoint> curve;
  for (double limit : limits) {
    options.spill = limit;
    Result<Plan> plan = plan_rebalance(scenarios, topology, options, executor);
    if (!plan) return failure(std::move(plan));
    const PlanSummary summary = summarize(*plan);
    SpillPoint point{limit, summary.imbalance_mean, summary.spill_mean, std::nullopt};
    if (group_limit) point.nodes = summarize_nodes(*plan, scenarios[0], topology, *group_limit);
    curve.push_back(point);
  }
  return curve;
}

nlohmann::ordered_json spill_entries(std::span<const SpillPoint> curve) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const SpillPoint& point : curve) {
    entries.push_back({{"limit", point.limit},
                       {"imbalance_mean", point.imbalance_mean},
                       {"locality_spill", point.spill_mean}});
    if (!point.nodes) continue;
    entries.back()["nodes_per_token_mean"] = point.nodes->mean;
    entries.back()["nodes_per_token_max"] = point.nodes->max;
  }
  return entries;
}

std::string spill_text(std::span<const SpillPoint> curve) {
  std::string text = "group-spill  imbalance  spilled  nodes per token (mean, at most)\n";
  for (const SpillPoint& point : curve) {
    const std::string nodes =
        point.nodes ? fmt::format("{:.2f}, {}", point.nodes->mean, point.nodes->max) : "needs --top-groups";
    text += fmt::format("{:>11.2f}  {:>9.4f}  {:>5.1f} %  {}\n", point.limit, point.imbalance_mean,
                        100.0 * point.spill_mean, nodes);
  }
  return text;
}

}  // namespace trimtab
