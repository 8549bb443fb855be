// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/nearby_split.hpp>

#include "split/share_network.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t length() const { return std::max<std::int64_t>(0, end - begin); }
  [[nodiscard]] Interval overlap(const Interval& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
  [[nodiscard]] Interval shifted(std::int64_t by) const { return {begin + by, end + by}; }
};

/// Hands one expert's tokens to its slots, as one source rank sees it. Demands and capacities that are left
/// after each stage are laid end to end in the order of ranks, and where they overlap they meet.
class ExpertCut {
 public:
  ExpertCut(std::span<const std::int64_t> demand, const Topology& topology, Rank source)
      : demand_(demand),
        topology_(topology),
        source_(source),
        capacity_(demand.size(), 0),
        node_demand_(static_cast<std::size_t>(topology.num_nodes()), 0),
        node_capacity_(node_demand_) {}

  /// `holdings` of the expert in the order of ranks. Adds to `sent` [slots] what the source sends.
  void run(std::span<const Holding> holdings, std::span<const std::int64_t> assignments,
           std::span<std::int64_t> sent) {
    sum_up(holdings, assignments);
    const Interval in_node = find_source_demand();
    const NodeId node = topology_.node_of(source_);
    const Interval beyond = find_source_rest(in_node);
    std::fill(node_demand_.begin(), node_demand_.end(), 0);  // now: capacity of lower ranks in the node
    std::int64_t rest_before = 0;
    for (const Holding& holding : holdings) {
      const std::size_t r = holding.rank.index();
      const std::int64_t own = std::min(demand_[r], capacity_[r]);
      const std::size_t n = topology_.node_of(holding.rank).index();
      const Interval place{node_demand_[n], node_demand_[n] + capacity_[r] - own};
      node_demand_[n] = place.end;
      const Interval for_node = place.overlap({0, used_in_node_[n]});
      const Interval for_rest{rest_before, rest_before + place.length() - for_node.length()};
      rest_before = for_rest.end;
      if (holding.rank == source_) give(holding, {0, own}, assignments, sent);
      if (topology_.node_of(holding.rank) == node) {
        give(holding, for_node.overlap(in_node).shifted(own - place.begin), assignments, sent);
      }
      give(holding, for_rest.overlap(beyond).shifted(own + for_node.length() - for_rest.begin), assignments,
           sent);
    }
  }

 private:
  void sum_up(std::span<const Holding> holdings, std::span<const std::int64_t> assignments) {
    std::fill(capacity_.begin(), capacity_.end(), 0);
    std::fill(node_demand_.begin(), node_demand_.end(), 0);
    std::fill(node_capacity_.begin(), node_capacity_.end(), 0);
    for (const Holding& holding : holdings) {
      for (SlotId slot : holding.slots) capacity_[holding.rank.index()] += assignments[slot.index()];
    }
    for (Rank rank : ids<Rank>(demand_.size())) {
      const std::int64_t own = std::min(demand_[rank.index()], capacity_[rank.index()]);
      node_demand_[topology_.node_of(rank).index()] += demand_[rank.index()] - own;
      node_capacity_[topology_.node_of(rank).index()] += capacity_[rank.index()] - own;
    }
    used_in_node_.resize(node_demand_.size());
    for (std::size_t n = 0; n < node_demand_.size(); ++n) {
      used_in_node_[n] = std::min(node_demand_[n], node_capacity_[n]);
    }
  }

  [[nodiscard]] std::int64_t demand_beyond_own(Rank rank) const {
    return demand_[rank.index()] - std::min(demand_[rank.index()], capacity_[rank.index()]);
  }

  /// Of the source, among the demands of its node.
  [[nodiscard]] Interval find_source_demand() const {
    std::int64_t before = 0;
    for (Rank rank : ids<Rank>(source_.value())) {
      if (topology_.node_of(rank) == topology_.node_of(source_)) before += demand_beyond_own(rank);
    }
    return {before, before + demand_beyond_own(source_)};
  }

  /// Of the source, among the demands that their nodes cannot meet.
  [[nodiscard]] Interval find_source_rest(const Interval& in_node) {
    std::fill(node_demand_.begin(), node_demand_.end(), 0);
    std::int64_t before = 0;
    for (Rank rank : ids<Rank>(source_.value())) {
      const std::size_t n = topology_.node_of(rank).index();
      const Interval own{node_demand_[n], node_demand_[n] + demand_beyond_own(rank)};
      node_demand_[n] = own.end;
      before += own.length() - own.overlap({0, used_in_node_[n]}).length();
    }
    const std::int64_t met = in_node.overlap({0, used_in_node_[topology_.node_of(source_).index()]}).length();
    return {before, before + in_node.length() - met};
  }

  /// `part` of what lies on the rank, whose slots take it one after another.
  static void give(const Holding& holding, const Interval& part, std::span<const std::int64_t> assignments,
                   std::span<std::int64_t> sent) {
    std::int64_t before = 0;
    for (SlotId slot : holding.slots) {
      const Interval room{before, before + assignments[slot.index()]};
      before = room.end;
      sent[slot.index()] += room.overlap(part).length();
    }
  }

  std::span<const std::int64_t> demand_;  ///< By Rank.
  const Topology& topology_;
  Rank source_;
  std::vector<std::int64_t> capacity_;  ///< By Rank: what the expert's slots there were assigned.
  std::vector<std::int64_t> node_demand_, node_capacity_, used_in_node_;
};

Status check_sizes(std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology,
                   std::span<const std::int64_t> by_source, std::span<const std::int64_t> assignments,
                   Rank source) {
  const auto slots = static_cast<std::size_t>(topology.num_slots());
  if (row.size() != slots || assignments.size() != slots) {
    return failure(Errc::invalid_argument, fmt::format("{} slots placed and {} assigned, the topology has {}",
                                                       row.size(), assignments.size(), slots));
  }
  if (source.value() < 0 || source.value() >= topology.num_ranks()) {
    return failure(Errc::invalid_argument,
                   fmt::format("source rank {} is not in 0..{}", source.value(), topology.num_ranks() - 1));
  }
  const auto ranks = static_cast<std::size_t>(topology.num_ranks());
  if (num_experts < 1 || by_source.size() != ranks * static_cast<std::size_t>(num_experts)) {
    return failure(Errc::invalid_argument, fmt::format("loads by source of size {} for {} ranks x {} experts",
                                                       by_source.size(), ranks, num_experts));
  }
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert || (expert.value() >= 0 && expert.value() < num_experts)) continue;
    return failure(Errc::invalid_argument, fmt::format("slot {}: expert {} is not in 0..{}", slot.value(),
                                                       expert.value(), num_experts - 1));
  }
  return {};
}

/// Whether the sources of each expert add up to its assignments.
Status check_sums(std::span<const Holding> holdings, std::int32_t num_experts,
                  std::span<const std::int64_t> by_source, std::span<const std::int64_t> assignments) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(num_experts), 0);
  for (std::size_t i = 0; i < by_source.size(); ++i) sums[i % sums.size()] += by_source[i];
  std::vector<std::int64_t> assigned(sums.size(), 0);
  for (const Holding& holding : holdings) {
    for (SlotId slot : holding.slots) assigned[holding.expert.index()] += assignments[slot.index()];
  }
  const auto wrong = std::ranges::mismatch(sums, assigned);
  if (wrong.in1 == sums.end()) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("expert {}: sources have {} assignments, its live slots {}",
                             wrong.in1 - sums.begin(), *wrong.in1, *wrong.in2));
}

}  // namespace

Result<std::vector<std::int64_t>> split_of_source(std::span<const ExpertId> row, std::int32_t num_experts,
                                                  const Topology& topology,
                                                  std::span<const std::int64_t> by_source,
                                                  std::span<const std::int64_t> assignments, Rank source) {
  if (Status checked = check_sizes(row, num_experts, topology, by_source, assignments, source); !checked) {
    return failure(std::move(checked));
  }
  const std::vector<Holding> holdings = list_holdings(row, num_experts, topology);
  if (Status checked = check_sums(holdings, num_experts, by_source, assignments); !checked) {
    return failure(std::move(checked));
  }
  std::vector<std::int64_t> sent(row.size(), 0);
  std::vector<std::int64_t> demand(static_cast<std::size_t>(topology.num_ranks()));
  ExpertCut cut(demand, topology, source);
  for (auto rest = std::span(holdings); !rest.empty();) {
    const ExpertId expert = rest.front().expert;
    const auto end = std::ranges::find_if(rest, [&](const Holding& h) { return h.expert != expert; });
    const auto part = rest.first(static_cast<std::size_t>(end - rest.begin()));
    for (std::size_t r = 0; r < demand.size(); ++r) {
      demand[r] = by_source[r * static_cast<std::size_t>(num_experts) + expert.index()];
    }
    cut.run(part, assignments, sent);
    rest = rest.subspan(part.size());
  }
  return sent;
}

}  // namespace trimtab
