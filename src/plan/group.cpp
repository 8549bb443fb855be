// SPDX-License-Identifier: Apache-2.0
#include "plan/group.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace trimtab {
namespace {

/// Looks at a node, over the whole search; beyond it the search ends at the next leaf.
constexpr std::size_t max_looks = 20000;

/// Depth-first search over "which node takes the next heaviest group", nodes of least pressure first. The
/// first leaf is therefore the heaviest-first packing; the rest of the search improves on it.
class GroupSearch {
 public:
  GroupSearch(std::span<const double> group_loads, std::span<const double> node_speeds)
      : loads_(group_loads),
        order_(group_loads.size()),
        node_of_(group_loads.size(), 0),
        best_(group_loads.size(), 0),
        per_node_(group_loads.size() / node_speeds.size()) {
    for (double speed : node_speeds) nodes_.push_back({0.0, speed, 0});
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      if (loads_[a] != loads_[b]) return loads_[a] > loads_[b];
      return a < b;
    });
  }

  GroupPacking run() {
    descend(0, 0.0);
    GroupPacking packing;
    for (std::size_t node : best_) packing.node_of_group.push_back(NodeId{static_cast<NodeId::rep>(node)});
    packing.pressure = best_pressure_;
    packing.is_optimal = looks_ <= max_looks;
    return packing;
  }

 private:
  struct Node {
    double load;
    double speed;
    std::size_t num_groups;
    friend bool operator==(const Node&, const Node&) = default;
  };

  [[nodiscard]] bool is_out_of_looks() const { return has_leaf_ && looks_ > max_looks; }

  void descend(std::size_t depth, double pressure) {
    if (depth == order_.size()) {
      best_ = node_of_;
      best_pressure_ = pressure;
      has_leaf_ = true;
      return;
    }
    looks_ += nodes_.size();
    for (std::size_t node : candidates()) {
      if (is_out_of_looks()) return;
      place(depth, node, pressure);
    }
  }

  void place(std::size_t depth, std::size_t node, double pressure) {
    const Node before = nodes_[node];
    nodes_[node].load += loads_[order_[depth]];
    ++nodes_[node].num_groups;
    const double after = std::max(pressure, nodes_[node].load / nodes_[node].speed);
    if (!has_leaf_ || after < best_pressure_) {
      node_of_[order_[depth]] = node;
      descend(depth + 1, after);
    }
    nodes_[node] = before;
  }

  /// Nodes that have room, one of each kind, least pressure first, then fewest groups, then the lower.
  [[nodiscard]] std::vector<std::size_t> candidates() const {
    std::vector<std::size_t> found;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (nodes_[node].num_groups < per_node_) found.push_back(node);
    }
    const auto key = [&](std::size_t node) {
      const Node& n = nodes_[node];
      return std::tuple(n.load / n.speed, n.num_groups, n.speed, node);
    };
    std::sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    const auto is_alike = [&](std::size_t a, std::size_t b) { return nodes_[a] == nodes_[b]; };
    found.erase(std::unique(found.begin(), found.end(), is_alike), found.end());
    return found;
  }

  std::span<const double> loads_;
  std::vector<std::size_t> order_;  ///< Groups, heaviest first.
  std::vector<Node> nodes_;
  std::vector<std::size_t> node_of_;
  std::vector<std::size_t> best_;
  std::size_t per_node_;
  double best_pressure_ = std::numeric_limits<double>::infinity();
  std::size_t looks_ = 0;
  bool has_leaf_ = false;
};

}  // namespace

GroupPacking pack_groups(std::span<const double> group_loads, std::span<const double> node_speeds) {
  return GroupSearch(group_loads, node_speeds).run();
}

}  // namespace trimtab
