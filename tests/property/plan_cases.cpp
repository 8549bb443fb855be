// SPDX-License-Identifier: Apache-2.0
#include "plan_cases.hpp"

#include <rapidcheck.h>

#include "support/generated_loads.hpp"

namespace trimtab::test {
namespace {

/// From 1 to `limit`.
std::int32_t draw_count(std::int32_t limit) { return *rc::gen::inRange(1, limit + 1); }

RankInfo draw_rank(std::int32_t node, std::int32_t most_slots) {
  RankInfo rank{NodeId{node}};
  rank.num_slots = *rc::gen::inRange(0, most_slots + 1);
  rank.speed = *rc::gen::weightedElement<double>({{6, 1.0}, {1, 0.5}, {1, 2.0}, {1, 3.7}});
  rank.is_alive = *rc::gen::weightedElement<bool>({{8, true}, {1, false}});
  return rank;
}

Topology draw_topology(std::int32_t num_nodes, const CaseLimits& limits) {
  const bool is_uniform = *rc::gen::arbitrary<bool>();
  const std::int32_t slots = draw_count(limits.slots_per_rank);
  std::vector<RankInfo> ranks;
  for (std::int32_t node = 0; node < num_nodes; ++node) {
    for (std::int32_t i = draw_count(limits.ranks_per_node); i > 0; --i) {
      ranks.push_back(is_uniform ? RankInfo{NodeId{node}, slots} : draw_rank(node, limits.slots_per_rank));
    }
  }
  ranks.front().is_alive = true;
  return Topology::make(std::move(ranks)).value();
}

std::vector<double> draw_row(std::int32_t num_experts) {
  const auto small = rc::gen::map(rc::gen::inRange(0, 4), [](int i) { return static_cast<double>(i); });
  const auto large = rc::gen::map(rc::gen::inRange(0, 100'000), [](int i) { return i / 7.0; });
  const auto zero = rc::gen::just(0.0);
  const auto load = *rc::gen::elementOf(
      std::vector<rc::Gen<double>>{small, large, rc::gen::weightedOneOf<double>({{3, zero}, {1, large}}),
                                   rc::gen::weightedOneOf<double>({{5, small}, {1, large}}), zero});
  return *rc::gen::container<std::vector<double>>(static_cast<std::size_t>(num_experts), load);
}

LoadMatrix draw_loads(LoadShape shape) {
  std::vector<double> values;
  for (std::int32_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::vector<double> row = draw_row(shape.num_experts);
    values.insert(values.end(), row.begin(), row.end());
  }
  return loads_of(shape, std::move(values));
}

std::int32_t live_slots_on(NodeId node, const Topology& topology) {
  std::int32_t slots = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const bool counts = topology.node_of(rank) == node && topology.is_alive(rank);
    slots += counts ? topology.rank(rank).num_slots : 0;
  }
  return slots;
}

}  // namespace

PlanCase draw_case(const CaseLimits& limits) {
  const std::int32_t num_nodes = draw_count(limits.nodes);
  PlanOptions options;
  options.num_groups = num_nodes * draw_count(limits.groups_per_node);
  options.locality = *rc::gen::element(Locality::automatic, Locality::none, Locality::none,
                                       Locality::group_strict, Locality::group_spill);
  options.spill = *rc::gen::element(0.0, 0.1, 0.3, 1.0);
  options.effort =
      *rc::gen::weightedElement<Effort>({{1, Effort::fast}, {4, Effort::standard}, {2, Effort::thorough}});
  options.shares = *rc::gen::weightedElement<ShareMode>({{3, ShareMode::even}, {1, ShareMode::exact}});
  options.objective = *rc::gen::element(Objective::worst, Objective::weighted_mean);
  options.allow_vacant = *rc::gen::arbitrary<bool>();
  const std::int32_t num_experts = options.num_groups * draw_count(limits.experts_per_group);
  Topology topology = draw_topology(num_nodes, limits);
  return {draw_loads({draw_count(limits.layers), num_experts}), std::move(topology), options};
}

std::vector<LoadMatrix> draw_scenarios(const PlanCase& drawn) {
  std::vector<LoadMatrix> scenarios{drawn.loads};
  for (std::int32_t more = draw_count(2); more > 0; --more) {
    scenarios.push_back(draw_loads({drawn.loads.num_layers(), drawn.loads.num_experts()}));
  }
  return scenarios;
}

bool is_by_group(const PlanCase& drawn) {
  return is_strict(drawn) || drawn.options.locality == Locality::group_spill;
}

bool is_strict(const PlanCase& drawn) {
  if (drawn.options.locality == Locality::automatic) return drawn.options.num_groups > 1;
  return drawn.options.locality == Locality::group_strict;
}

bool is_feasible(const PlanCase& drawn) {
  const std::int32_t num_experts = drawn.loads.num_experts();
  if (drawn.topology.num_live_slots() < num_experts) return false;
  if (!is_by_group(drawn)) return true;
  for (NodeId node : ids<NodeId>(drawn.topology.num_nodes())) {
    if (live_slots_on(node, drawn.topology) < num_experts / drawn.topology.num_nodes()) return false;
  }
  return true;
}

}  // namespace trimtab::test
