// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/compat.hpp>

#include <fmt/format.h>

#include "plan/compat/greedy_layer.hpp"
#include "plan/compat/reporter.hpp"
#include "plan/compat/shape.hpp"
#include "plan/compat/trtllm.hpp"

namespace trimtab {
namespace {

EplbShape shape_of(CompatPlanner planner, const Topology& topology, const PlanOptions& options) {
  const EplbShape flat{topology.num_slots(), 1, 1, topology.num_ranks()};
  if (planner == CompatPlanner::trtllm || options.locality == Locality::none) return flat;
  return {topology.num_slots(), options.num_groups, topology.num_nodes(), topology.num_ranks()};
}

Status check_options(CompatPlanner planner, const EplbShape& shape, const PlanOptions& options) {
  if (options.allow_vacant) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} fills every slot: vacant slots cannot be had", to_string(planner)));
  }
  if (options.locality == Locality::group_spill || options.shares == ShareMode::exact) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} plans for even shares, without spill between nodes", to_string(planner)));
  }
  const bool has_groups = planner != CompatPlanner::trtllm && shape.num_groups % shape.num_nodes == 0;
  if (options.locality == Locality::group_strict && !has_groups) {
    return failure(Errc::invalid_argument,
                   planner == CompatPlanner::trtllm
                       ? "trtllm knows no groups: group-strict cannot be had"
                       : fmt::format("{} plans by group only when nodes divide groups: {} nodes, {} groups",
                                     to_string(planner), shape.num_nodes, shape.num_groups));
  }
  return {};
}

Status check(CompatPlanner planner, const LoadMatrix& loads, const Topology& topology, const EplbShape& shape,
             const PlanOptions& options) {
  if (options.num_groups < 1) {
    return failure(Errc::invalid_argument, fmt::format("{} expert groups < 1", options.num_groups));
  }
  if (Status ok = check_options(planner, shape, options); !ok) return ok;
  const bool by_node = resolve_shape(shape).num_nodes > 1;
  if (Status ok = check_ranks(to_string(planner), topology, by_node); !ok) return ok;
  if (Status ok = check_shape(loads.num_experts(), shape); !ok) return ok;
  return check_totals(loads);
}

template <class Rules>
void plan_row_greedily(LayerLoads loads, const EplbShape& shape, std::span<ExpertId> row) {
  GreedyLayer<Rules> layer(static_cast<std::int32_t>(loads.size()), shape);
  layer.plan(loads);
  std::copy(layer.experts().begin(), layer.experts().end(), row.begin());
}

void plan_row(CompatPlanner planner, LayerLoads loads, const EplbShape& shape, std::span<ExpertId> row) {
  switch (planner) {
    case CompatPlanner::deepseek:
      return plan_row_greedily<TorchRules>(loads, shape, row);
    case CompatPlanner::trtllm:
      return plan_row_like_trtllm(loads, shape.num_ranks, row);
    case CompatPlanner::vllm:
      return plan_row_greedily<NumpyRules>(loads, shape, row);
  }
}

}  // namespace

std::string_view to_string(CompatPlanner planner) noexcept {
  switch (planner) {
    case CompatPlanner::deepseek:
      return "deepseek";
    case CompatPlanner::trtllm:
      return "trtllm";
    case CompatPlanner::vllm:
      return "vllm";
  }
  return "unknown";
}

Result<Plan> plan_like(CompatPlanner planner, const LoadMatrix& loads, const Topology& topology,
                       const PlanOptions& options, Executor& executor) {
  const EplbShape asked = shape_of(planner, topology, options);
  if (Status ok = check(planner, loads, topology, asked, options); !ok) return failure(std::move(ok));
  const EplbShape shape = resolve_shape(asked);
  const Locality locality = shape.num_groups > 1 ? Locality::group_strict : Locality::none;
  const CompatReporter reporter(loads.num_experts(), shape.num_groups, topology, locality);

  const auto num_layers = static_cast<std::size_t>(loads.num_layers());
  const auto num_slots = static_cast<std::size_t>(topology.num_slots());
  std::vector<ExpertId> map(num_layers * num_slots);
  std::vector<LayerReport> reports(num_layers);
  executor.for_each_index(num_layers, [&](std::size_t i) {
    const LayerId layer{static_cast<LayerId::rep>(i)};
    const auto row = std::span(map).subspan(i * num_slots, num_slots);
    plan_row(planner, loads.layer(layer), shape, row);
    reports[i] = reporter.report(layer, loads.layer(layer), row);
  });
  Result<Placement> placement =
      Placement::make(loads.num_layers(), topology.num_slots(), loads.num_experts(), std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return Plan{*std::move(placement), std::move(reports), locality};
}

}  // namespace trimtab
