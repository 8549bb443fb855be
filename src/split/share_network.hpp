// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// A shared expert on one of the live ranks that hold it.
using EdgeId = StrongId<struct EdgeTag, std::int32_t>;
inline constexpr EdgeId no_edge{-1};

/// An expert with live slots on several ranks, numbered in the order of experts.
using SharedId = StrongId<struct SharedTag, std::int32_t>;

/// A way for load to come to a rank: from the other edges of the same expert.
struct Inlet {
  EdgeId edge;
  SharedId shared;
  EdgeId first, last;  ///< All edges of the expert, `last` excluded.
};

/// What joins a rank to its parent in a spanning tree.
struct TreeLink {
  EdgeId up = no_edge;    ///< The rank's own edge; `no_edge` at a root.
  EdgeId down = no_edge;  ///< The parent's edge of the same expert.
  Rank parent{-1};
};

/// Lists of `Item`, one for each `Key`, end to end.
template <class Key, class Item>
struct Grouped {
  std::vector<std::int32_t> first;  ///< By key, and the total at the end.
  std::vector<Item> items;

  [[nodiscard]] std::span<const Item> of(Key key) const noexcept {
    const auto begin = static_cast<std::size_t>(first[key.index()]);
    return {items.data() + begin, static_cast<std::size_t>(first[key.index() + 1]) - begin};
  }
};

/// Where the load of each expert of one layer can go. Several slots of an expert on a rank count as one.
struct ShareNetwork {
  std::vector<double> speeds;  ///< By rank.

  // Experts that live on one rank: their load is fixed.
  Grouped<Rank, ExpertId> fixed_experts;
  std::vector<SlotId> fixed_slots;  ///< Beside `fixed_experts.items`: the lowest slot there.

  // Shared experts. The edges of one are consecutive, in the order of ranks.
  std::vector<ExpertId> shared;
  std::vector<EdgeId> first_edge;  ///< By SharedId, and the total at the end.
  std::vector<Rank> rank_of;       ///< By EdgeId.
  std::vector<SharedId> shared_of;
  std::vector<SlotId> edge_slots;       ///< The lowest slot there.
  std::vector<std::int32_t> num_slots;  ///< Slots there; by EdgeId.
  Grouped<Rank, Inlet> inlets;          ///< The edges at each rank.

  // By expert: one of both.
  std::vector<Rank> fixed_rank;     ///< -1 where shared.
  std::vector<SharedId> shared_id;  ///< -1 where fixed.

  // Slots beyond one for each expert and rank.
  std::vector<std::vector<SlotId>> stacks;  ///< All slots of an expert on a rank, where there are several.
  std::vector<SlotId> silent_slots;         ///< Vacant, or of a dead rank.

  // Live ranks: those with edges, component after component, in each a spanning tree, breadth first from its
  // first rank; then those without.
  std::vector<Rank> order;
  std::vector<std::int32_t>
      first_of_component;       ///< Into `order`; at the end, where ranks without edges begin.
  std::vector<TreeLink> links;  ///< By Rank.

  [[nodiscard]] IdRange<EdgeId> edges_of(SharedId id) const noexcept {
    return {first_edge[id.index()], first_edge[id.index() + 1]};
  }
  [[nodiscard]] std::size_t num_ranks() const noexcept { return speeds.size(); }
  [[nodiscard]] std::size_t num_edges() const noexcept { return rank_of.size(); }
};

/// An expert on a live rank, with its slots there.
struct Holding {
  ExpertId expert;
  Rank rank;
  std::vector<SlotId> slots;
};

/// In the order of experts, then ranks. Precondition: as below.
[[nodiscard]] std::vector<Holding> list_holdings(std::span<const ExpertId> row, std::int32_t num_experts,
                                                 const Topology& topology);

/// Divides `amount` among slots of one rank, the first ones taking more.
void divide_evenly(std::int64_t amount, std::span<const SlotId> slots, std::span<std::int64_t> assignments);

/// Precondition: every entry of `row` is vacant or in 0..num_experts-1; `row.size() == topology.num_slots()`.
/// An expert without live slot is neither fixed nor shared.
[[nodiscard]] ShareNetwork make_share_network(std::span<const ExpertId> row, std::int32_t num_experts,
                                              const Topology& topology);

/// A network of nothing but shared items, each with a list of live ranks that it may be divided among.
/// SharedId i is the i-th list; a list may have one rank. There are no slots. Precondition: the lists are not
/// empty; each names a rank once.
[[nodiscard]] ShareNetwork make_choice_network(const Grouped<SharedId, Rank>& choices,
                                               const Topology& topology);

}  // namespace trimtab
