// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/reporter.hpp"

#include <trimtab/core/imbalance.hpp>

#include <algorithm>

namespace trimtab {
namespace {

Imbalance imbalance_of(LayerLoads loads, Row row, const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, row, topology), topology);
}

}  // namespace

CompatReporter::CompatReporter(std::int32_t num_experts, std::int32_t num_groups, const Topology& topology,
                               Locality locality)
    : topology_(topology), identity_(identity_row(num_experts, topology, false)) {
  for (ExpertId e : ids<ExpertId>(num_experts)) everything_.experts.push_back(e);
  everything_.ranks = usable_ranks(topology);
  if (locality != Locality::group_strict) return;
  groups_.resize(static_cast<std::size_t>(num_groups));
  for (ExpertId e : ids<ExpertId>(num_experts)) {
    groups_[e.index() / static_cast<std::size_t>(num_experts / num_groups)].push_back(e);
  }
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    std::vector<Rank> ranks = usable_ranks(topology, node);
    const double speed = speed_of(ranks, topology);
    nodes_.push_back({std::move(ranks), speed, 0});
  }
}

double CompatReporter::bound_on_pressure(LayerLoads loads) const {
  if (groups_.empty()) return pressure_bound(loads, everything_, topology_);
  std::vector<double> group_loads;
  std::vector<double> node_speeds;
  for (const auto& group : groups_) group_loads.push_back(load_of(group, loads));
  for (const NodeRanks& node : nodes_) node_speeds.push_back(node.speed);
  return pressure_bound(loads, groups_, nodes_, pack_groups(group_loads, node_speeds), topology_);
}

LayerReport CompatReporter::report(LayerId layer, LayerLoads loads, Row row) const {
  LayerReport report{.layer = layer};
  report.imbalance_before = imbalance_of(loads, identity_, topology_).max_over_mean();
  const Imbalance planned = imbalance_of(loads, row, topology_);
  report.imbalance = std::max(1.0, planned.max_over_mean());
  // The bound sums loads in another order than the ranks do; where it is met, rounding must not exceed it.
  if (planned.mean > 0.0) {
    report.bound = std::clamp(bound_on_pressure(loads) / planned.mean, 1.0, report.imbalance);
  }
  report.duplicates_on_rank = count_duplicates(row, topology_);
  return report;
}

}  // namespace trimtab
