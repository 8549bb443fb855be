// SPDX-License-Identifier: Apache-2.0
#include "plan/parts.hpp"

#include "plan/pigeonhole.hpp"
#include "plan/replicate.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

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

}  // namespace

PartMaker::PartMaker(std::int32_t num_experts, const Topology& topology, const PlanOptions& options,
                     Locality locality)
    : topology_(topology), locality_(locality), spill_(options.spill) {
  for (ExpertId e : ids<ExpertId>(num_experts)) everything_.experts.push_back(e);
  everything_.ranks = usable_ranks(topology);
  speeds_are_equal_ = std::all_of(everything_.ranks.begin(), everything_.ranks.end(), [&](Rank rank) {
    return topology.rank(rank).speed == topology.rank(everything_.ranks.front()).speed;
  });
  if (locality == Locality::none) return;
  nodes_ = make_nodes(topology);
  groups_ = make_groups(num_experts, options.num_groups);
}

Parts PartMaker::make(LayerLoads loads) const {
  return locality_ == Locality::none ? make_whole(loads) : make_by_group(loads);
}

Parts PartMaker::make_whole(LayerLoads loads) const {
  Parts parts{{{everything_, count_replicas(loads, everything_, topology_)}}, {}, 0.0, 0.0};
  parts.exact_bound = parts.bound = bound_of_everything(loads, parts.parts[0].counts);
  return parts;
}

std::optional<Parts> PartMaker::count_for_split(LayerLoads loads, const Parts& parts) const {
  Parts made = parts;
  bool differs = false;
  for (Part& part : made.parts) {
    const std::vector<std::int32_t> before =
        std::exchange(part.counts, count_replicas_for_split(loads, part.region, topology_));
    differs |= part.counts != before;
  }
  return differs ? std::optional(std::move(made)) : std::nullopt;
}

// With equal speeds the counts that the planner starts from are those that the replica floor is made of.
double PartMaker::bound_of_everything(LayerLoads loads, std::span<const std::int32_t> counts) const {
  if (!speeds_are_equal_) return pressure_bound(loads, everything_, topology_);
  double largest = 0.0;
  for (ExpertId e : everything_.experts) largest = std::max(largest, loads[e.index()] / counts[e.index()]);
  const double mean = load_of(everything_.experts, loads) / speed_of(everything_.ranks, topology_);
  return std::max(mean, largest / topology_.rank(everything_.ranks.front()).speed);
}

double PartMaker::sharpen(LayerLoads loads, ShareMode shares, double bound, double reached) const {
  constexpr std::int32_t few = 4;
  std::int32_t slots = 0;
  for (Rank rank : everything_.ranks) slots = std::max(slots, topology_.rank(rank).num_slots);
  if (locality_ != Locality::none || !speeds_are_equal_ || slots > few) return bound;
  const double speed = topology_.rank(everything_.ranks.front()).speed;
  const auto pigeonhole = shares == ShareMode::exact ? split_pigeonhole_bound : pigeonhole_bound;
  return pigeonhole(loads, everything_, slots, bound * speed, reached * speed) / speed;
}

Parts PartMaker::make_by_group(LayerLoads loads) const {
  std::vector<double> group_loads;
  std::vector<double> node_speeds;
  for (const auto& group : groups_) group_loads.push_back(load_of(group, loads));
  for (const NodeRanks& node : nodes_) node_speeds.push_back(node.speed);
  const GroupPacking packing = pack_groups(group_loads, node_speeds);
  Parts parts{std::vector<Part>(nodes_.size()), std::vector<NodeId>(loads.size()), 0.0, 0.0};
  for (std::size_t n = 0; n < nodes_.size(); ++n) parts.parts[n].region.ranks = nodes_[n].ranks;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const NodeId home = packing.node_of_group[g];
    auto& experts = parts.parts[home.index()].region.experts;
    experts.insert(experts.end(), groups_[g].begin(), groups_[g].end());
    for (ExpertId e : groups_[g]) parts.home[e.index()] = home;
  }
  for (Part& part : parts.parts) part.counts = count_replicas(loads, part.region, topology_);
  if (locality_ == Locality::group_strict) {
    parts.exact_bound = parts.bound = pressure_bound(loads, groups_, nodes_, packing, topology_);
  } else {
    // Some node is home to packing.pressure at least, and at most the spill can leave it: under even shares,
    // by which the spill is counted.
    const double slowest = *std::min_element(node_speeds.begin(), node_speeds.end());
    const double spilled = spill_ * load_of(everything_.experts, loads) / slowest;
    parts.bound = bound_of_everything(loads, count_replicas(loads, everything_, topology_));
    parts.exact_bound = parts.bound;
    parts.bound = std::max(parts.bound, packing.bound - spilled);
  }
  return parts;
}

}  // namespace trimtab
