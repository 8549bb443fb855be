// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_planner.hpp"

#include <trimtab/core/imbalance.hpp>

#include "plan/pack.hpp"
#include "plan/replicate.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Good enough: a tenth of a percent above what no placement can beat is below the noise of any batch.
constexpr double tolerance = 1e-3;
constexpr std::size_t swaps_per_rank = 4;

std::vector<std::vector<ExpertId>> make_groups(std::int32_t num_experts, std::int32_t num_groups) {
  std::vector<std::vector<ExpertId>> groups(static_cast<std::size_t>(num_groups));
  for (ExpertId e : ids<ExpertId>(num_experts)) {
    groups[e.index() / static_cast<std::size_t>(num_experts / num_groups)].push_back(e);
  }
  return groups;
}

bool are_alike(std::span<const Rank> a, std::span<const Rank> b, const Topology& topology) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Rank x, Rank y) {
    const RankInfo& left = topology.rank(x);
    const RankInfo& right = topology.rank(y);
    return left.num_slots == right.num_slots && left.speed == right.speed;
  });
}

std::vector<NodeRanks> make_nodes(const Topology& topology) {
  std::vector<NodeRanks> nodes;
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    NodeRanks made{usable_ranks(topology, node), 0.0, 0};
    made.speed = speed_of(made.ranks, topology);
    while (made.kind < nodes.size() && !are_alike(nodes[made.kind].ranks, made.ranks, topology)) ++made.kind;
    nodes.push_back(std::move(made));
  }
  return nodes;
}

Imbalance imbalance_of(LayerLoads loads, Row row, const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, row, topology), topology);
}

void write_rank(const RankContents& contents, Rank rank, const Topology& topology, std::span<ExpertId> row) {
  std::vector<ExpertId> held(contents.on(rank).begin(), contents.on(rank).end());
  std::sort(held.begin(), held.end());
  std::copy(held.begin(), held.end(), row.begin() + topology.slots_of(rank).first().value());
}

}  // namespace

LayerPlanner::LayerPlanner(std::int32_t num_experts, const Topology& topology, const PlanOptions& options,
                           Locality locality)
    : topology_(topology),
      options_(options),
      locality_(locality),
      identity_(identity_row(num_experts, topology, false)),
      live_identity_(identity_row(num_experts, topology, true)),
      identity_is_live_(is_live(identity_, num_experts, topology)),
      identity_is_allowed_(identity_is_live_) {
  for (ExpertId e : ids<ExpertId>(num_experts)) everything_.experts.push_back(e);
  everything_.ranks = usable_ranks(topology);
  if (locality != Locality::group_strict) return;
  nodes_ = make_nodes(topology);
  groups_ = make_groups(num_experts, options.num_groups);
  identity_is_allowed_ =
      identity_is_live_ && keeps_groups_together(identity_, num_experts, options.num_groups, topology);
}

LayerReport LayerPlanner::plan(LayerId layer, LayerLoads loads, std::span<ExpertId> row) const {
  LayerReport report{.layer = layer};
  report.is_dense = std::all_of(loads.begin(), loads.end(), [](double load) { return load == 0.0; });
  report.imbalance_before = imbalance_of(loads, identity_, topology_).max_over_mean();
  if (report.is_dense && identity_is_live_) {
    std::copy(identity_.begin(), identity_.end(), row.begin());
  } else {
    const Split parts = split(loads);
    pack(loads, parts, row);
    keep_identity_if_better(loads, row);
    const Imbalance planned = imbalance_of(loads, row, topology_);
    report.imbalance = std::max(1.0, planned.max_over_mean());
    // The bound sums loads in another order than the ranks do; where it is met, rounding must not exceed it.
    if (planned.mean > 0.0) report.bound = std::clamp(parts.bound / planned.mean, 1.0, report.imbalance);
  }
  report.duplicates_on_rank = count_duplicates(row, topology_);
  return report;
}

LayerPlanner::Split LayerPlanner::split(LayerLoads loads) const {
  if (locality_ == Locality::group_strict) return split_by_group(loads);
  return {{everything_}, pressure_bound(loads, everything_, topology_)};
}

LayerPlanner::Split LayerPlanner::split_by_group(LayerLoads loads) const {
  std::vector<double> group_loads;
  std::vector<double> node_speeds;
  for (const auto& group : groups_) group_loads.push_back(load_of(group, loads));
  for (const NodeRanks& node : nodes_) node_speeds.push_back(node.speed);
  const GroupPacking packing = pack_groups(group_loads, node_speeds);
  Split result{std::vector<Region>(nodes_.size()),
               pressure_bound(loads, groups_, nodes_, packing, topology_)};
  for (std::size_t n = 0; n < nodes_.size(); ++n) result.regions[n].ranks = nodes_[n].ranks;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    auto& experts = result.regions[packing.node_of_group[g].index()].experts;
    experts.insert(experts.end(), groups_[g].begin(), groups_[g].end());
  }
  return result;
}

void LayerPlanner::pack(LayerLoads loads, const Split& parts, std::span<ExpertId> row) const {
  std::vector<std::int32_t> distinct(loads.size(), 0);
  for (const Region& region : parts.regions) {
    const std::vector<std::int32_t> counts = count_replicas(loads, region, topology_);
    for (ExpertId e : region.experts) distinct[e.index()] = counts[e.index()];
  }
  std::vector<std::int32_t> counts = distinct;
  std::vector<Duplicate> duplicates;
  for (const Region& region : parts.regions) {
    if (options_.allow_vacant) break;
    const std::vector<Duplicate> forced = force_duplicates(loads, region, topology_, counts);
    duplicates.insert(duplicates.end(), forced.begin(), forced.end());
  }
  RankContents contents(loads, counts, topology_);
  for (const Region& region : parts.regions) pack_heaviest_first(contents, region, distinct);
  for (const Duplicate& duplicate : duplicates) contents.add(duplicate.rank, duplicate.expert);
  std::fill(row.begin(), row.end(), no_expert);
  for (const Region& region : parts.regions) {
    const double mean = load_of(region.experts, loads) / speed_of(region.ranks, topology_);
    const double target = std::max(parts.bound, mean) * (1.0 + tolerance);
    improve_by_swaps(contents, region, target, swaps_per_rank * region.ranks.size());
    for (Rank rank : region.ranks) write_rank(contents, rank, topology_, row);
  }
}

// Heaviest first is a heuristic: on ranks of unequal speed, or by luck, the identity may be better.
void LayerPlanner::keep_identity_if_better(LayerLoads loads, std::span<ExpertId> row) const {
  if (!identity_is_allowed_) return;
  if (count_duplicates(live_identity_, topology_) > count_duplicates(row, topology_)) return;
  const double identity = imbalance_of(loads, live_identity_, topology_).max;
  if (identity < imbalance_of(loads, row, topology_).max) {
    std::copy(live_identity_.begin(), live_identity_.end(), row.begin());
  }
}

}  // namespace trimtab
