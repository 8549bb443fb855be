// SPDX-License-Identifier: Apache-2.0
#include "split/group_owners.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

/// What the nodes hold of one group.
struct Holdings {
  std::vector<std::int32_t> num_experts;  ///< By node: different experts of the group with a live slot there.
  std::vector<std::int32_t> num_replicas;  ///< By node.
};

/// By group, in one pass over the experts' slots.
std::vector<Holdings> count_holdings(std::span<const ExpertId> row, std::int32_t num_experts,
                                     std::int32_t num_groups, const Topology& topology) {
  const auto nodes = static_cast<std::size_t>(topology.num_nodes());
  std::vector<Holdings> holdings(static_cast<std::size_t>(num_groups),
                                 {std::vector<std::int32_t>(nodes, 0), std::vector<std::int32_t>(nodes, 0)});
  std::vector<NodeId> last_node(static_cast<std::size_t>(num_experts), NodeId{-1});
  const std::int32_t size = num_experts / num_groups;
  for (NodeId node : ids<NodeId>(topology.num_nodes())) {
    for (SlotId slot : ids<SlotId>(row.size())) {
      const ExpertId expert = row[slot.index()];
      if (expert == no_expert || !topology.is_alive(slot)) continue;
      if (topology.node_of(topology.rank_of(slot)) != node) continue;
      Holdings& group = holdings[static_cast<std::size_t>(expert.value() / size)];
      ++group.num_replicas[node.index()];
      if (last_node[expert.index()] == node) continue;
      last_node[expert.index()] = node;
      ++group.num_experts[node.index()];
    }
  }
  return holdings;
}

/// The node that comes nearest to holding the whole group.
NodeId owner_of(const Holdings& group) {
  NodeId owner{0};
  for (NodeId node : ids<NodeId>(group.num_experts.size())) {
    const auto key = [&](NodeId n) {
      return std::pair(group.num_experts[n.index()], group.num_replicas[n.index()]);
    };
    if (key(node) > key(owner)) owner = node;
  }
  return owner;
}

bool is_in(NodeId node, SlotId slot, const Topology& topology) {
  return topology.is_alive(slot) && topology.node_of(topology.rank_of(slot)) == node;
}

/// An expert of the group that `node` does not hold.
ExpertId missing_expert(std::span<const ExpertId> row, IdRange<ExpertId> experts, NodeId node,
                        const Topology& topology) {
  for (ExpertId expert : experts) {
    bool is_held = false;
    for (SlotId slot : ids<SlotId>(row.size())) {
      is_held = is_held || (row[slot.index()] == expert && is_in(node, slot, topology));
    }
    if (!is_held) return expert;
  }
  return no_expert;
}

}  // namespace

Result<std::vector<ExpertId>> keep_owned_slots(std::span<const ExpertId> row, std::int32_t num_experts,
                                               std::int32_t num_groups, const Topology& topology) {
  const std::int32_t size = num_experts / num_groups;
  std::vector<NodeId> owners;
  for (const Holdings& group : count_holdings(row, num_experts, num_groups, topology)) {
    const NodeId owner = owner_of(group);
    if (group.num_experts[owner.index()] < size) {
      const auto g = static_cast<std::int32_t>(owners.size());
      const ExpertId expert = missing_expert(row, ids<ExpertId>(ExpertId{g * size}, size), owner, topology);
      return failure(
          Errc::infeasible,
          fmt::format("group {} is whole in no node: node {} comes nearest and has no live replica of "
                      "expert {}",
                      g, owner.value(), expert.value()));
    }
    owners.push_back(owner);
  }
  std::vector<ExpertId> kept(row.begin(), row.end());
  for (SlotId slot : ids<SlotId>(row.size())) {
    ExpertId& expert = kept[slot.index()];
    if (expert == no_expert || is_in(owners[static_cast<std::size_t>(expert.value() / size)], slot, topology))
      continue;
    expert = no_expert;
  }
  return kept;
}

}  // namespace trimtab
