// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trimtab {

/// Cheapest flow of whole numbers through a network with costs that are not negative: successive shortest
/// paths with potentials.
class MinCostFlow {
 public:
  using Node = std::int32_t;

  explicit MinCostFlow(Node num_nodes) : first_(static_cast<std::size_t>(num_nodes), -1) {}

  /// Returns the number of the arc. Precondition: capacity and cost are not negative.
  std::int32_t add_arc(Node from, Node to, std::int64_t capacity, std::int64_t cost);

  /// Sends as much as possible from `source` to `sink`, at least cost. Returns how much.
  std::int64_t send(Node source, Node sink);

  [[nodiscard]] std::int64_t flow_on(std::int32_t arc) const {
    return arcs_[2 * static_cast<std::size_t>(arc) + 1].left;
  }

 private:
  struct Arc {
    Node to;
    std::int32_t next;  ///< Of the same origin; -1 at the end.
    std::int64_t left;  ///< Capacity that is free.
    std::int64_t cost;
  };

  void link(Node from, Node to, std::int64_t capacity, std::int64_t cost);
  bool find_distances(Node source, Node sink);
  std::int64_t send_along_shortest(Node at, Node sink, std::int64_t most);

  std::vector<Arc> arcs_;  ///< Each followed by its reverse.
  std::vector<std::int32_t> first_;
  std::vector<std::int64_t> distance_;   ///< By node, of the last search.
  std::vector<std::int64_t> potential_;  ///< By node: makes all costs of free arcs not negative.
  std::vector<std::int32_t> current_;    ///< By node: the arc to try next.
  std::vector<bool> is_open_;            ///< By node: on the path being built.
};

}  // namespace trimtab
