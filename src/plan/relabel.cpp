// SPDX-License-Identifier: Apache-2.0
#include "plan/relabel.hpp"

#include "plan/assignment.hpp"

#include <algorithm>

namespace trimtab {
namespace {

using Ranks = std::vector<Rank>;

bool are_alike(Rank a, Rank b, const Topology& topology) {
  return topology.rank(a).num_slots == topology.rank(b).num_slots &&
         topology.rank(a).speed == topology.rank(b).speed;
}

std::vector<Ranks> classes_of(const Ranks& ranks, const Topology& topology) {
  std::vector<Ranks> classes;
  for (Rank rank : ranks) {
    auto found = std::find_if(classes.begin(), classes.end(),
                              [&](const Ranks& c) { return are_alike(c.front(), rank, topology); });
    if (found == classes.end()) found = classes.insert(classes.end(), Ranks{});
    found->push_back(rank);
  }
  return classes;
}

/// What staying is worth: kept replicas first, then replicas that only change the rank inside their node.
class Worth {
 public:
  Worth(Row row, const Holders& holders, const Topology& topology)
      : row_(row),
        holders_(holders),
        topology_(topology),
        on_rank_(static_cast<std::size_t>(topology.num_ranks()), 0),
        on_node_(static_cast<std::size_t>(topology.num_nodes()), 0) {}

  /// Of putting what `from` holds in the row on each of `to`.
  void of(Rank from, std::span<const Rank> to, std::span<std::int64_t> values) {
    tally(from, 1);
    for (std::size_t i = 0; i < to.size(); ++i) values[i] = value_on(to[i]);
    tally(from, -1);
  }

 private:
  static constexpr std::int64_t per_kept = std::int64_t{1} << 20;  // more than any rank has slots

  [[nodiscard]] std::int64_t value_on(Rank rank) const {
    return per_kept * on_rank_[rank.index()] + on_node_[topology_.node_of(rank).index()];
  }

  void tally(Rank from, std::int64_t sign) {
    for (SlotId slot : topology_.slots_of(from)) {
      if (row_[slot.index()] == no_expert) continue;
      Rank last_rank{-1};
      NodeId last_node{-1};
      for (Rank holder : holders_.of(row_[slot.index()])) {
        if (holder.value() >= topology_.num_ranks() || !topology_.is_alive(holder)) continue;
        if (holder != last_rank) on_rank_[holder.index()] += sign;
        if (topology_.node_of(holder) != last_node) on_node_[topology_.node_of(holder).index()] += sign;
        last_rank = holder;
        last_node = topology_.node_of(holder);
      }
    }
  }

  Row row_;
  const Holders& holders_;
  const Topology& topology_;
  std::vector<std::int64_t> on_rank_;
  std::vector<std::int64_t> on_node_;
};

class Relabelling {
 public:
  Relabelling(Row row, const Holders& holders, const Topology& topology)
      : row_(row), topology_(topology), worth_(row, holders, topology), result_(row.begin(), row.end()) {}

  /// The best total for moving the contents of `from` to `to`, alike one by one as sets; writes it when
  /// asked.
  std::int64_t match(const Ranks& from, const Ranks& to, bool do_write) {
    std::int64_t total = 0;
    const std::vector<Ranks> sources = classes_of(from, topology_);
    for (const Ranks& source : sources) {
      Ranks target;
      for (Rank rank : to) {
        if (are_alike(rank, source.front(), topology_)) target.push_back(rank);
      }
      total += match_class(source, target, do_write);
    }
    return total;
  }

  std::vector<ExpertId> take() { return std::move(result_); }

 private:
  std::int64_t match_class(const Ranks& from, const Ranks& to, bool do_write) {
    const auto best = assign_best(
        from.size(), [&](std::size_t i, std::span<std::int64_t> values) { worth_.of(from[i], to, values); });
    std::int64_t total = 0;
    std::vector<std::int64_t> values(to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (do_write) write(from[i], to[best[i]]);
      worth_.of(from[i], to, values);
      total += values[best[i]];
    }
    return total;
  }

  void write(Rank from, Rank to) {
    const auto source = topology_.slots_of(from);
    std::copy_n(row_.begin() + source.first().value(), source.size(),
                result_.begin() + topology_.slots_of(to).first().value());
  }

  Row row_;
  const Topology& topology_;
  Worth worth_;
  std::vector<ExpertId> result_;
};

std::vector<Ranks> ranks_by_node(const Topology& topology) {
  std::vector<Ranks> nodes;
  for (NodeId node : ids<NodeId>(topology.num_nodes())) nodes.push_back(usable_ranks(topology, node));
  return nodes;
}

/// Same kinds of ranks, in any order.
bool are_alike(const Ranks& a, const Ranks& b, const Topology& topology) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end(),
                             [&](Rank x, Rank y) { return are_alike(x, y, topology); });
}

void relabel_nodes(Relabelling& relabelling, const Topology& topology) {
  constexpr std::int64_t never = -(std::int64_t{1} << 39);
  const std::vector<Ranks> nodes = ranks_by_node(topology);
  const auto best = assign_best(nodes.size(), [&](std::size_t i, std::span<std::int64_t> values) {
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      values[j] =
          are_alike(nodes[i], nodes[j], topology) ? relabelling.match(nodes[i], nodes[j], false) : never;
    }
  });
  for (std::size_t i = 0; i < nodes.size(); ++i) relabelling.match(nodes[i], nodes[best[i]], true);
}

}  // namespace

std::vector<ExpertId> relabel_ranks(Row row, const Holders& holders, const Topology& topology,
                                    bool keep_nodes) {
  Relabelling relabelling(row, holders, topology);
  if (keep_nodes) {
    relabel_nodes(relabelling, topology);
  } else {
    const Ranks ranks = usable_ranks(topology);
    relabelling.match(ranks, ranks, true);
  }
  return relabelling.take();
}

std::int32_t count_moves(Row row, const Holders& holders, const Topology& topology) {
  std::int32_t moves = 0;
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert || !topology.is_alive(slot)) continue;
    moves += holders.holds(topology.rank_of(slot), expert) ? 0 : 1;
  }
  return moves;
}

}  // namespace trimtab
