// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Finds the replica that one rank uses for each expert in mode `nearest`.
///
/// For every expert the tokens of the ranks go to a replica on the same rank; those of ranks without one are
/// dealt out over the replicas on their node, and those of nodes without one over all replicas, rank after
/// rank, so that in sum each replica gets its share as nearly as whole ranks allow. Every rank follows the
/// same rule and keeps its own answers only, so nothing of size experts x ranks exists.
class NearestFinder {
 public:
  NearestFinder(const RoutingTable& table, Rank self);

  [[nodiscard]] SlotId find(LayerId layer, ExpertId expert);

 private:
  /// A replica and the tokens it is to get.
  struct Candidate {
    SlotId slot{};
    Rank rank{};
    NodeId node{};
    double share = 0.0;  ///< Of all its expert's tokens.
    double given = 0.0;  ///< Tokens that it gets from nearer ranks.
    double wanted = 0.0;
  };
  /// Tokens of the ranks that choose among the same candidates, and how many of them come before ours.
  struct Crowd {
    double total = 0.0;
    double before = 0.0;
  };

  void collect(LayerId layer, ExpertId expert);
  void give_own();
  void deal_out_nodes();
  [[nodiscard]] Crowd crowd_of_node(std::span<const Candidate> on_node) const;
  [[nodiscard]] Crowd crowd_of_nodes() const;
  [[nodiscard]] SlotId choose(std::span<const Candidate> candidates, const Crowd& crowd,
                              std::size_t shift) const;
  [[nodiscard]] double load_of(Rank rank) const;

  const RoutingTable& table_;
  Rank self_;
  NodeId node_;
  std::vector<double> node_load_;       ///< [nodes]
  std::vector<double> nodes_before_;    ///< [nodes]: tokens of the nodes with lower numbers.
  std::vector<double> before_in_node_;  ///< [ranks]
  std::vector<Candidate> candidates_;   ///< Of one expert, by node, rank and slot.
};

}  // namespace trimtab
