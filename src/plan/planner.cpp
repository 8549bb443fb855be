// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/planner.hpp>

#include <fmt/format.h>

#include "plan/layer_planner.hpp"

namespace trimtab {
namespace {

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
  if (options.locality == Locality::group_strict && !nodes_divide_groups(topology, options)) {
    return failure(Errc::invalid_argument, fmt::format("{} nodes do not divide {} expert groups",
                                                       topology.num_nodes(), options.num_groups));
  }
  return {};
}

Status check_node_slots(std::int32_t num_experts, const Topology& topology) {
  const std::int32_t per_node = num_experts / topology.num_nodes();
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    std::int64_t slots = 0;
    for (Rank rank : usable_ranks(topology, node)) slots += topology.rank(rank).num_slots;
    if (slots < per_node) {
      return failure(Errc::infeasible,
                     fmt::format("node {}: {} live slots < {} experts, its share under group-strict",
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
  return locality == Locality::group_strict ? check_node_slots(num_experts, topology) : Status{};
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
  }
  return "unknown";
}

Result<Plan> plan_rebalance(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options,
                            Executor& executor) {
  const std::int32_t num_experts = loads.num_experts();
  if (Status ok = check_options(num_experts, topology, options); !ok) return failure(std::move(ok));
  const Locality locality = resolve(topology, options);
  if (Status ok = check_slots(num_experts, topology, locality); !ok) return failure(std::move(ok));

  const LayerPlanner planner(num_experts, topology, options, locality);
  const auto num_layers = static_cast<std::size_t>(loads.num_layers());
  const auto num_slots = static_cast<std::size_t>(topology.num_slots());
  std::vector<ExpertId> map(num_layers * num_slots);
  std::vector<LayerReport> reports(num_layers);
  executor.for_each_index(num_layers, [&](std::size_t i) {
    const LayerId layer{static_cast<LayerId::rep>(i)};
    reports[i] = planner.plan(layer, loads.layer(layer), std::span(map).subspan(i * num_slots, num_slots));
  });
  Result<Placement> placement =
      Placement::make(loads.num_layers(), topology.num_slots(), num_experts, std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return Plan{*std::move(placement), std::move(reports), locality};
}

}  // namespace trimtab
