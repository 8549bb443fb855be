// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/nearby_split.hpp>
#include <trimtab/split/split_solver.hpp>

#include "split/max_pressure.hpp"
#include "split/min_cost_flow.hpp"
#include "split/share_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trimtab {
namespace {

/// Assignments of each expert by the rank of their tokens.
class Sources {
 public:
  Sources(std::span<const std::int64_t> by_source, std::int32_t num_experts, const Topology& topology)
      : by_source_(by_source), num_experts_(static_cast<std::size_t>(num_experts)), topology_(topology) {}

  [[nodiscard]] std::int64_t at(Rank rank, ExpertId expert) const {
    return by_source_[rank.index() * num_experts_ + expert.index()];
  }
  [[nodiscard]] std::int64_t at(NodeId node, ExpertId expert) const {
    std::int64_t sum = 0;
    for (Rank rank : ids<Rank>(topology_.num_ranks())) {
      if (topology_.node_of(rank) == node) sum += at(rank, expert);
    }
    return sum;
  }

  /// Of all ranks together, by expert.
  [[nodiscard]] Result<std::vector<std::int64_t>> total() const {
    const auto ranks = static_cast<std::size_t>(topology_.num_ranks());
    if (num_experts_ == 0 || by_source_.size() != ranks * num_experts_) {
      return failure(Errc::invalid_argument,
                     fmt::format("loads by source of size {} for {} ranks x {} experts", by_source_.size(),
                                 ranks, num_experts_));
    }
    std::vector<std::int64_t> loads(num_experts_, 0);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < by_source_.size(); ++i) {
      const std::int64_t load = by_source_[i];
      if (load < 0 || load > max_split_total - sum) {
        return failure(Errc::invalid_argument,
                       fmt::format("source rank {}, expert {}: load {} is below 0, or the sum above {}",
                                   i / num_experts_, i % num_experts_, load, max_split_total));
      }
      sum += load;
      loads[i % num_experts_] += load;
    }
    return loads;
  }

 private:
  std::span<const std::int64_t> by_source_;
  std::size_t num_experts_;
  const Topology& topology_;
};

/// The holdings of one expert, in the order of ranks, and its holdings of one node.
std::span<const Holding> leading_part(std::span<const Holding> holdings, auto key) {
  const auto end =
      std::ranges::find_if(holdings, [&](const Holding& h) { return key(h) != key(holdings.front()); });
  return holdings.first(static_cast<std::size_t>(end - holdings.begin()));
}

/// By expert, then node, then rank.
std::vector<Holding> list_by_node(std::span<const ExpertId> row, std::int32_t num_experts,
                                  const Topology& topology) {
  std::vector<Holding> holdings = list_holdings(row, num_experts, topology);
  std::ranges::stable_sort(holdings, {},
                           [&](const Holding& h) { return std::pair(h.expert, topology.node_of(h.rank)); });
  return holdings;
}

std::int64_t on_slots(const Holding& holding, std::span<const std::int64_t> assignments) {
  std::int64_t sum = 0;
  for (SlotId slot : holding.slots) sum += assignments[slot.index()];
  return sum;
}

/// `holdings` by expert and node. What is computed beyond the demand of a rank, or a node, came from
/// elsewhere.
Leaving count_leaving(std::span<const Holding> holdings, std::span<const std::int64_t> assignments,
                      const Sources& sources, const Topology& topology) {
  Leaving leaving;
  const auto key = [&](const Holding& h) { return std::pair(h.expert, topology.node_of(h.rank)); };
  while (!holdings.empty()) {
    const auto part = leading_part(holdings, key);
    std::int64_t on_node = 0;
    for (const Holding& holding : part) {
      const std::int64_t amount = on_slots(holding, assignments);
      on_node += amount;
      leaving.rank += std::max<std::int64_t>(0, amount - sources.at(holding.rank, holding.expert));
    }
    const auto [expert, node] = key(part.front());
    if (on_node > 0) leaving.node += std::max<std::int64_t>(0, on_node - sources.at(node, expert));
    holdings = holdings.subspan(part.size());
  }
  return leaving;
}

/// The largest load with load / speed <= limit.
std::int64_t capacity(double limit, double speed) {
  auto load = static_cast<std::int64_t>(limit * speed);
  while (static_cast<double>(load + 1) / speed <= limit) ++load;
  while (load > 0 && static_cast<double>(load) / speed > limit) --load;
  return load;
}

/// Source -> experts -> (expert, node) -> ranks -> sink. Into a node, and onto a rank, goes for nothing what
/// is in demand there, and at a cost whatever is beyond that.
class NearbyFlow {
 public:
  NearbyFlow(std::span<const Holding> holdings, std::span<const std::int64_t> loads, const Sources& sources,
             const Topology& topology, const LeavingCosts& costs)
      : holdings_(holdings),
        loads_(loads),
        sources_(sources),
        topology_(topology),
        costs_(costs),
        flow_(num_nodes()) {
    add_experts();
  }

  void limit_ranks(double limit) {
    for (Rank rank : ids<Rank>(topology_.num_ranks())) {
      if (!topology_.is_alive(rank)) continue;
      flow_.add_arc(node_of(rank), sink, capacity(limit, topology_.rank(rank).speed), 0);
    }
  }

  std::vector<std::int64_t> solve() {
    flow_.send(source, sink);
    std::vector<std::int64_t> assignments(static_cast<std::size_t>(topology_.num_slots()), 0);
    for (std::size_t i = 0; i < holdings_.size(); ++i) {
      divide_evenly(flow_.flow_on(cheap_[i]) + flow_.flow_on(cheap_[i] + 1), holdings_[i].slots, assignments);
    }
    return assignments;
  }

 private:
  using Node = MinCostFlow::Node;
  static constexpr Node source = 0;
  static constexpr Node sink = 1;

  [[nodiscard]] Node num_nodes() const {
    return static_cast<Node>(2 + loads_.size() + static_cast<std::size_t>(topology_.num_ranks()) +
                             holdings_.size());
  }
  [[nodiscard]] static Node node_of(ExpertId expert) { return 2 + expert.value(); }
  [[nodiscard]] Node node_of(Rank rank) const { return 2 + static_cast<Node>(loads_.size()) + rank.value(); }

  /// Two arcs in a row: for nothing up to `demand`, and at `cost`.
  std::int32_t add_priced(Node from, Node to, std::int64_t demand, std::int64_t most, std::int64_t cost) {
    const std::int32_t cheap = flow_.add_arc(from, to, demand, 0);
    flow_.add_arc(from, to, most, cost);
    return cheap;
  }

  void add_experts() {
    for (ExpertId expert : ids<ExpertId>(loads_.size())) {
      flow_.add_arc(source, node_of(expert), loads_[expert.index()], 0);
    }
    Node next = node_of(Rank{topology_.num_ranks()});
    const auto key = [&](const Holding& h) { return std::pair(h.expert, topology_.node_of(h.rank)); };
    for (auto rest = holdings_; !rest.empty(); ++next) {
      const auto part = leading_part(rest, key);
      const auto [expert, node] = key(part.front());
      const std::int64_t load = loads_[expert.index()];
      add_priced(node_of(expert), next, sources_.at(node, expert), load, costs_.node);
      for (const Holding& holding : part) {
        cheap_.push_back(
            add_priced(next, node_of(holding.rank), sources_.at(holding.rank, expert), load, costs_.rank));
      }
      rest = rest.subspan(part.size());
    }
  }

  std::span<const Holding> holdings_;
  std::span<const std::int64_t> loads_;
  const Sources& sources_;
  const Topology& topology_;
  const LeavingCosts& costs_;
  MinCostFlow flow_;
  std::vector<std::int32_t> cheap_;  ///< By holding: the arc of its own demand; the dear one follows.
};

Status check_costs(double slack, const LeavingCosts& costs) {
  constexpr std::int64_t most = 1'000'000;  // so that sums over a path stay small
  if (!std::isfinite(slack) || slack < 0.0) {
    return failure(Errc::invalid_argument, fmt::format("slack {}: must be finite and at least 0", slack));
  }
  if (costs.rank >= 0 && costs.node >= 0 && costs.rank <= most && costs.node <= most) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("costs {} of leaving a rank and {} of leaving a node: must be 0 to {}",
                             costs.rank, costs.node, most));
}

}  // namespace

Result<NearbySplit> solve_nearby(std::span<const ExpertId> row, std::int32_t num_experts,
                                 const Topology& topology, std::span<const std::int64_t> by_source,
                                 double slack, const LeavingCosts& costs) {
  Result<SplitSolver> solver = SplitSolver::make(row, num_experts, topology);
  if (!solver) return failure(std::move(solver));
  if (Status checked = check_costs(slack, costs); !checked) return failure(std::move(checked));
  const Sources sources(by_source, num_experts, topology);
  Result<std::vector<std::int64_t>> loads = sources.total();
  if (!loads) return failure(std::move(loads));

  NearbySplit nearby;
  nearby.assignments.resize(row.size());
  const Result<SplitResult> exact = solver->solve(*loads, nearby.assignments);
  if (!exact) return tl::unexpected<Error>(exact.error());
  const std::vector<Holding> holdings = list_by_node(row, num_experts, topology);
  nearby.optimum = exact->optimum;
  nearby.before = count_leaving(holdings, nearby.assignments, sources, topology);

  NearbyFlow flow(holdings, *loads, sources, topology, costs);
  flow.limit_ranks(std::max((1.0 + slack) * exact->optimum, exact->max_pressure));
  nearby.assignments = flow.solve();
  nearby.after = count_leaving(holdings, nearby.assignments, sources, topology);
  nearby.max_pressure = max_pressure(nearby.assignments, topology);
  return nearby;
}

}  // namespace trimtab
