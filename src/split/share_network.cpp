// SPDX-License-Identifier: Apache-2.0
#include "split/share_network.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

/// Groups `items` by `key_of(item)`, each group in the order given.
template <class Key, class Item, class KeyOf>
Grouped<Key, Item> group_by(std::size_t num_keys, const std::vector<Item>& items, KeyOf key_of) {
  Grouped<Key, Item> grouped{std::vector<std::int32_t>(num_keys + 1, 0), items};
  for (const Item& item : items) ++grouped.first[key_of(item).index() + 1];
  for (std::size_t k = 0; k < num_keys; ++k) grouped.first[k + 1] += grouped.first[k];
  std::stable_sort(grouped.items.begin(), grouped.items.end(),
                   [&](const Item& a, const Item& b) { return key_of(a) < key_of(b); });
  return grouped;
}

void add_fixed(ShareNetwork& network, const std::vector<Holding>& fixed) {
  std::vector<std::pair<Rank, std::size_t>> by_rank;
  for (std::size_t i = 0; i < fixed.size(); ++i) by_rank.emplace_back(fixed[i].rank, i);
  const auto grouped =
      group_by<Rank>(network.num_ranks(), by_rank, [](const auto& entry) { return entry.first; });
  network.fixed_experts.first = grouped.first;
  for (const auto& [rank, i] : grouped.items) {
    network.fixed_experts.items.push_back(fixed[i].expert);
    network.fixed_slots.push_back(fixed[i].slots.front());
    network.fixed_rank[fixed[i].expert.index()] = rank;
  }
}

void add_shared(ShareNetwork& network, std::span<const Holding> holdings) {
  const SharedId id{static_cast<SharedId::rep>(network.shared.size())};
  network.shared.push_back(holdings.front().expert);
  network.shared_id[holdings.front().expert.index()] = id;
  for (const Holding& holding : holdings) {
    network.rank_of.push_back(holding.rank);
    network.shared_of.push_back(id);
    network.edge_slots.push_back(holding.slots.front());
    network.num_slots.push_back(static_cast<std::int32_t>(holding.slots.size()));
  }
  network.first_edge.push_back(EdgeId{static_cast<EdgeId::rep>(network.rank_of.size())});
}

/// Breadth first from `root`, which has edges and was not reached yet.
void add_component(ShareNetwork& network, Rank root, std::vector<bool>& reached) {
  reached[root.index()] = true;
  std::size_t next = network.order.size();
  network.order.push_back(root);
  for (; next < network.order.size(); ++next) {
    for (const Inlet& inlet : network.inlets.of(network.order[next])) {
      for (EdgeId up : network.edges_of(inlet.shared)) {
        const Rank rank = network.rank_of[up.index()];
        if (reached[rank.index()]) continue;
        reached[rank.index()] = true;
        network.links[rank.index()] = {up, inlet.edge, network.order[next]};
        network.order.push_back(rank);
      }
    }
  }
  network.first_of_component.push_back(static_cast<std::int32_t>(network.order.size()));
}

/// The ranks with most edges first, so that trees are shallow.
void add_components(ShareNetwork& network) {
  std::vector<Rank> ranks;
  const auto degree = [&](Rank rank) { return network.inlets.of(rank).size(); };
  for (Rank rank : ids<Rank>(network.num_ranks())) {
    if (degree(rank) > 0) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](Rank a, Rank b) { return degree(a) > degree(b); });
  std::vector<bool> reached(network.num_ranks(), false);
  network.links.assign(network.num_ranks(), {});
  network.first_of_component.push_back(0);
  for (Rank rank : ranks) {
    if (!reached[rank.index()]) add_component(network, rank, reached);
  }
}

ShareNetwork begin_network(const Topology& topology) {
  ShareNetwork network;
  for (Rank rank : ids<Rank>(topology.num_ranks())) network.speeds.push_back(topology.rank(rank).speed);
  network.first_edge.push_back(EdgeId{0});
  return network;
}

/// What follows from the edges.
void finish_network(ShareNetwork& network, const Topology& topology) {
  std::vector<Inlet> inlets;
  for (EdgeId edge : ids<EdgeId>(network.num_edges())) {
    const SharedId shared = network.shared_of[edge.index()];
    inlets.push_back(
        {edge, shared, network.first_edge[shared.index()], network.first_edge[shared.index() + 1]});
  }
  network.inlets = group_by<Rank>(network.num_ranks(), inlets,
                                  [&](const Inlet& inlet) { return network.rank_of[inlet.edge.index()]; });
  add_components(network);
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (topology.is_alive(rank) && network.inlets.of(rank).empty()) network.order.push_back(rank);
  }
}

}  // namespace

std::vector<Holding> list_holdings(std::span<const ExpertId> row, std::int32_t num_experts,
                                   const Topology& topology) {
  std::vector<std::vector<Holding>> of_expert(static_cast<std::size_t>(num_experts));
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert || !topology.is_alive(slot)) continue;
    auto& holdings = of_expert[expert.index()];
    const Rank rank = topology.rank_of(slot);
    if (holdings.empty() || holdings.back().rank != rank) holdings.push_back({expert, rank, {}});
    holdings.back().slots.push_back(slot);
  }
  std::vector<Holding> all;
  for (auto& holdings : of_expert) std::move(holdings.begin(), holdings.end(), std::back_inserter(all));
  return all;
}

void divide_evenly(std::int64_t amount, std::span<const SlotId> slots, std::span<std::int64_t> assignments) {
  auto left = static_cast<std::int64_t>(slots.size());
  for (SlotId slot : slots) {
    const std::int64_t share = (amount + left - 1) / left;
    assignments[slot.index()] = share;
    amount -= share;
    --left;
  }
}

ShareNetwork make_share_network(std::span<const ExpertId> row, std::int32_t num_experts,
                                const Topology& topology) {
  ShareNetwork network = begin_network(topology);
  network.fixed_rank.assign(static_cast<std::size_t>(num_experts), Rank{-1});
  network.shared_id.assign(static_cast<std::size_t>(num_experts), SharedId{-1});
  const std::vector<Holding> holdings = list_holdings(row, num_experts, topology);
  std::vector<Holding> fixed;
  for (std::size_t begin = 0, end = 0; begin < holdings.size(); begin = end) {
    while (end < holdings.size() && holdings[end].expert == holdings[begin].expert) ++end;
    if (end - begin == 1) {
      fixed.push_back(holdings[begin]);
    } else {
      add_shared(network, std::span(holdings).subspan(begin, end - begin));
    }
  }
  add_fixed(network, fixed);
  for (const Holding& holding : holdings) {
    if (holding.slots.size() > 1) network.stacks.push_back(holding.slots);
  }
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] == no_expert || !topology.is_alive(slot)) network.silent_slots.push_back(slot);
  }
  finish_network(network, topology);
  return network;
}

ShareNetwork make_choice_network(const Grouped<SharedId, Rank>& choices, const Topology& topology) {
  ShareNetwork network = begin_network(topology);
  for (SharedId shared : ids<SharedId>(choices.first.size() - 1)) {
    network.shared.push_back(no_expert);
    for (Rank rank : choices.of(shared)) {
      network.rank_of.push_back(rank);
      network.shared_of.push_back(shared);
    }
    network.first_edge.push_back(EdgeId{static_cast<EdgeId::rep>(network.rank_of.size())});
  }
  finish_network(network, topology);
  return network;
}

}  // namespace trimtab
