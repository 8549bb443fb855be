// SPDX-License-Identifier: Apache-2.0
#include "split/min_cost_flow.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace trimtab {
namespace {

constexpr std::int64_t unreached = std::numeric_limits<std::int64_t>::max();

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace

std::int32_t MinCostFlow::add_arc(Node from, Node to, std::int64_t capacity, std::int64_t cost) {
  const auto number = static_cast<std::int32_t>(arcs_.size() / 2);
  link(from, to, capacity, cost);
  link(to, from, 0, -cost);
  return number;
}

void MinCostFlow::link(Node from, Node to, std::int64_t capacity, std::int64_t cost) {
  arcs_.push_back({to, first_[index(from)], capacity, cost});
  first_[index(from)] = static_cast<std::int32_t>(arcs_.size()) - 1;
}

/// Dijkstra over costs made not negative by the potentials, which then take up the distances.
bool MinCostFlow::find_distances(Node source, Node sink) {
  distance_.assign(first_.size(), unreached);
  using Entry = std::pair<std::int64_t, Node>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  distance_[index(source)] = 0;
  queue.emplace(0, source);
  while (!queue.empty()) {
    const auto [distance, node] = queue.top();
    queue.pop();
    if (distance > distance_[index(node)]) continue;
    for (std::int32_t a = first_[index(node)]; a >= 0; a = arcs_[index(a)].next) {
      const Arc& arc = arcs_[index(a)];
      if (arc.left == 0) continue;
      const std::int64_t next = distance + arc.cost + potential_[index(node)] - potential_[index(arc.to)];
      if (next >= distance_[index(arc.to)]) continue;
      distance_[index(arc.to)] = next;
      queue.emplace(next, arc.to);
    }
  }
  if (distance_[index(sink)] == unreached) return false;
  for (std::size_t n = 0; n < first_.size(); ++n) {
    potential_[n] += std::min(distance_[n], distance_[index(sink)]);
  }
  return true;
}

/// Over arcs that cost nothing after the potentials, each tried once for all paths of this length.
std::int64_t MinCostFlow::send_along_shortest(Node at, Node sink, std::int64_t most) {
  if (at == sink) return most;
  is_open_[index(at)] = true;
  std::int64_t sent = 0;
  for (std::int32_t& a = current_[index(at)]; a >= 0; a = arcs_[index(a)].next) {
    Arc& arc = arcs_[index(a)];
    if (arc.left == 0 || is_open_[index(arc.to)]) continue;
    if (arc.cost + potential_[index(at)] != potential_[index(arc.to)]) continue;
    const std::int64_t more = send_along_shortest(arc.to, sink, std::min(most - sent, arc.left));
    arc.left -= more;
    arcs_[index(a ^ 1)].left += more;
    sent += more;
    if (sent == most) break;
  }
  is_open_[index(at)] = false;
  return sent;
}

std::int64_t MinCostFlow::send(Node source, Node sink) {
  potential_.assign(first_.size(), 0);
  is_open_.assign(first_.size(), false);
  std::int64_t sent = 0;
  while (find_distances(source, sink)) {
    for (std::int64_t more = 1; more > 0; sent += more) {
      current_ = first_;
      more = send_along_shortest(source, sink, unreached);
    }
  }
  return sent;
}

}  // namespace trimtab
