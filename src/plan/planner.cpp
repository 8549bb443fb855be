// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/planner.hpp>

#include <fmt/format.h>

#include <cmath>

#include "plan/layer_planner.hpp"

namespace trimtab {
namespace {

bool is_by_group(Locality locality) {
  return locality == Locality::group_strict || locality == Locality::group_spill;
}

bool nodes_divide_groups(const Topology& topology, const PlanOptions& options) {
  return options.num_groups % topology.num_nodes() == 0;
}

Locality resolve(const Topology& topology, const PlanOptions& options) {
  if (options.locality != Locality::automatic) return options.locality;
  const bool by_group = options.num_groups > 1 && nodes_divide_groups(topology, options);
  return by_group ? Locality::group_strict : Locality::none;
}

Status check_options(std::int32_t num_experts, const Topology& topology, const PlanOptions& options) {
  if (options.num_groups < 1 || num_experts % options.num_groups != 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} expert groups do not divide {} experts", options.num_groups, num_experts));
  }
  if (is_by_group(options.locality) && !nodes_divide_groups(topology, options)) {
    return failure(Errc::invalid_argument, fmt::format("{} nodes do not divide {} expert groups",
                                                       topology.num_nodes(), options.num_groups));
  }
  if (!(options.spill >= 0.0 && options.spill <= 1.0)) {
    return failure(Errc::invalid_argument,
                   fmt::format("spill {} is not a share of the load, 0 to 1", options.spill));
  }
  return {};
}

Status check_scenarios(std::span<const LoadMatrix> scenarios, const std::vector<double>& weights) {
  if (scenarios.empty()) return failure(Errc::invalid_argument, "no load scenario");
  for (std::size_t i = 1; i < scenarios.size(); ++i) {
    if (scenarios[i].num_layers() != scenarios[0].num_layers() ||
        scenarios[i].num_experts() != scenarios[0].num_experts()) {
      return failure(Errc::invalid_argument,
                     fmt::format("load scenario {} has {} layers of {} experts, scenario 0 has {} of {}", i,
                                 scenarios[i].num_layers(), scenarios[i].num_experts(),
                                 scenarios[0].num_layers(), scenarios[0].num_experts()));
    }
  }
  if (!weights.empty() && weights.size() != scenarios.size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} weights for {} load scenarios", weights.size(), scenarios.size()));
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0.0 && std::isfinite(weights[i]))) {
      return failure(Errc::invalid_argument,
                     fmt::format("weight {} of load scenario {} is not a finite number >= 0", weights[i], i));
    }
    sum += weights[i];
  }
  if (!weights.empty() && !(sum > 0.0 && std::isfinite(sum))) {
    return failure(Errc::invalid_argument,
                   fmt::format("the weights of the load scenarios add up to {}", sum));
  }
  return {};
}

Status check_node_slots(std::int32_t num_experts, const Topology& topology) {
  const std::int32_t per_node = num_experts / topology.num_nodes();
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    std::int64_t slots = 0;
    for (Rank rank : usable_ranks(topology, node)) slots += topology.rank(rank).num_slots;
    if (slots < per_node) {
      return failure(Errc::infeasible, fmt::format("node {}: {} live slots < {} experts, its share by group",
                                                   node.value(), slots, per_node));
    }
  }
  return {};
}

Status check_slots(std::int32_t num_experts, const Topology& topology, Locality locality) {
  if (topology.num_live_slots() < num_experts) {
    return failure(Errc::infeasible, fmt::format("{} live slots < {} experts: every expert needs one",
                                                 topology.num_live_slots(), num_experts));
  }
  return is_by_group(locality) ? check_node_slots(num_experts, topology) : Status{};
}

}  // namespace

std::string_view to_string(Locality locality) noexcept {
  switch (locality) {
    case Locality::automatic:
      return "automatic";
    case Locality::none:
      return "none";
    case Locality::group_strict:
      return "group-strict";
    case Locality::group_spill:
      return "group-spill";
  }
  return "unknown";
}

std::string_view to_string(Effort effort) noexcept {
  switch (effort) {
    case Effort::fast:
      return "fast";
    case Effort::standard:
      return "default";
    case Effort::thorough:
      return "thorough";
  }
  return "unknown";
}

std::string_view to_string(Objective objective) noexcept {
  switch (objective) {
    case Objective::worst:
      return "worst";
    case Objective::weighted_mean:
      return "weighted-mean";
  }
  return "unknown";
}

Result<Plan> plan_rebalance(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options,
                            Executor& executor) {
  return plan_rebalance(std::span(&loads, 1), topology, options, executor);
}

Result<Plan> plan_rebalance(std::span<const LoadMatrix> scenarios, const Topology& topology,
                            const PlanOptions& options, Executor& executor) {
  if (Status ok = check_scenarios(scenarios, options.weights); !ok) return failure(std::move(ok));
  const std::int32_t num_experts = scenarios[0].num_experts();
  if (Status ok = check_options(num_experts, topology, options); !ok) return failure(std::move(ok));
  const Locality locality = resolve(topology, options);
  if (Status ok = check_slots(num_experts, topology, locality); !ok) return failure(std::move(ok));

  const LayerPlanner planner(num_experts, topology, options, locality);
  const auto num_layers = static_cast<std::size_t>(scenarios[0].num_layers());
  const auto num_slots = static_cast<std::size_t>(topology.num_slots());
  std::vector<ExpertId> map(num_layers * num_slots);
  std::vector<LayerReport> reports(num_layers);
  executor.for_each_index(num_layers, [&](std::size_t i) {
    const LayerId layer{static_cast<LayerId::rep>(i)};
    std::vector<LayerLoads> loads;
    for (const LoadMatrix& scenario : scenarios) loads.push_back(scenario.layer(layer));
    reports[i] = planner.plan(layer, loads, std::span(map).subspan(i * num_slots, num_slots));
  });
  Result<Placement> placement =
      Placement::make(scenarios[0].num_layers(), topology.num_slots(), num_experts, std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return Plan{*std::move(placement), std::move(reports), locality};
}

}  // namespace trimtab
