// SPDX-License-Identifier: Apache-2.0
//
// What surrounds the exact split, against trying everything and against LEMON's network simplex.
#include <trimtab/split/nearby_split.hpp>
#include <trimtab/split/split_plan.hpp>
#include <trimtab/split/split_solver.hpp>
#include <trimtab/split/waterfill.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "split_oracle.hpp"

#ifdef TRIMTAB_TEST_WITH_LEMON
#include <lemon/list_graph.h>
#include <lemon/network_simplex.h>
#include <lemon/preflow.h>
#endif

namespace trimtab::test {
namespace {

using Loads = std::vector<std::int64_t>;

int draw(int least, int most, std::mt19937_64& random) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

double pressure_of(const Topology& topology, Rank rank, std::int64_t load) {
  return static_cast<double>(load) / topology.rank(rank).speed;
}

double max_pressure(const Topology& topology, const Loads& loads) {
  double most = 0.0;
  for (Rank rank : ids<Rank>(loads.size()))
    most = std::max(most, pressure_of(topology, rank, loads[rank.index()]));
  return most;
}

Loads exact_split(const SplitCase& drawn) {
  SplitSolver solver = SplitSolver::make(drawn.row, drawn.num_experts, drawn.topology).value();
  Loads assignments(drawn.row.size());
  EXPECT_TRUE(solver.solve(drawn.loads, assignments));
  return assignments;
}

// One after another onto the rank that is then least full: by exchange no other way is better.
TEST(FillRanks, FillsAsOneTokenAfterAnotherWould) {
  std::mt19937_64 random(1);
  for (int repeat = 0; repeat < 3000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    const Loads loads = rank_loads_of(drawn, exact_split(drawn));
    const int tokens = draw(0, 200, random);
    Loads expected = loads;
    for (int t = 0; t < tokens; ++t) {
      Rank best{-1};
      for (Rank rank : ids<Rank>(loads.size())) {
        if (!drawn.topology.is_alive(rank)) continue;
        const auto next = [&](Rank r) { return pressure_of(drawn.topology, r, expected[r.index()] + 1); };
        if (best == Rank{-1} || next(rank) < next(best)) best = rank;
      }
      ++expected[best.index()];
    }
    const auto filled = fill_ranks(loads, tokens, drawn.topology).value();
    std::int64_t sum = 0;
    Loads all = loads;
    for (std::size_t r = 0; r < loads.size(); ++r) {
      ASSERT_GE(filled[r], 0);
      sum += filled[r];
      all[r] += filled[r];
    }
    ASSERT_EQ(sum, tokens);
    ASSERT_EQ(all, expected);
  }
}

// The joint optimum: the larger of the split's and the mean of everything.
TEST(FillRanks, ReachesTheJointOptimum) {
  std::mt19937_64 random(2);
  for (int repeat = 0; repeat < 3000; ++repeat) {
    const SplitCase drawn = draw_split_case({}, random);
    Loads loads = rank_loads_of(drawn, exact_split(drawn));
    const int tokens = draw(0, 100, random);
    double sum = tokens;
    for (std::int64_t load : loads) sum += static_cast<double>(load);
    const auto filled = fill_ranks(loads, tokens, drawn.topology).value();
    for (std::size_t r = 0; r < loads.size(); ++r) loads[r] += filled[r];
    const double joint = std::max(best_pressure(drawn), sum / drawn.topology.total_speed());
    ASSERT_EQ(max_pressure(drawn.topology, loads), std::ceil(joint - 1e-9));
  }
}

struct Batch {
  std::vector<Rank> home, visited;
  std::int32_t k;
  [[nodiscard]] TokenRanks view() const { return {home, visited, k}; }
};

Batch draw_batch(const Topology& topology, int tokens, std::mt19937_64& random) {
  Batch batch{{}, {}, draw(0, 3, random)};
  for (int t = 0; t < tokens; ++t) {
    do
      batch.home.resize(static_cast<std::size_t>(t) + 1, Rank{-1}),
          batch.home.back() = Rank{draw(0, topology.num_ranks() - 1, random)};
    while (!topology.is_alive(batch.home.back()));
    for (int i = 0; i < batch.k; ++i)
      batch.visited.push_back(Rank{draw(-1, topology.num_ranks() - 1, random)});
  }
  return batch;
}

/// Least of all choices; every live rank is a candidate under `anywhere`.
double best_fill(const Topology& topology, const Batch& batch, bool anywhere, std::size_t token,
                 Loads& loads) {
  if (token == batch.home.size()) return max_pressure(topology, loads);
  double best = 1e18;
  const auto k = static_cast<std::size_t>(batch.k);
  const auto visited = std::span(batch.visited).subspan(token * k, k);
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (!topology.is_alive(rank)) continue;
    if (!anywhere && rank != batch.home[token] && std::ranges::count(visited, rank) == 0) continue;
    ++loads[rank.index()];
    best = std::min(best, best_fill(topology, batch, anywhere, token + 1, loads));
    --loads[rank.index()];
  }
  return best;
}

TEST(FillByToken, IsTheBestOfAllChoices) {
  std::mt19937_64 random(3);
  int anywhere_count = 0;
  for (int repeat = 0; repeat < 3000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn =
        draw_split_case({.ranks = 4, .slots_per_rank = 2, .load = 3, .has_speeds = repeat % 2 == 0}, random);
    Loads loads = rank_loads_of(drawn, exact_split(drawn));
    const Batch batch = draw_batch(drawn.topology, draw(0, 6, random), random);
    double sum = static_cast<double>(batch.home.size());
    for (std::int64_t load : loads) sum += static_cast<double>(load);
    const bool anywhere = max_pressure(drawn.topology, loads) < sum / drawn.topology.total_speed();
    anywhere_count += anywhere ? 1 : 0;
    const TokenFill fill = fill_by_token(loads, batch.view(), drawn.topology).value();
    ASSERT_EQ(fill.ranks.size(), batch.home.size());
    ASSERT_DOUBLE_EQ(fill.max_pressure, best_fill(drawn.topology, batch, anywhere, 0, loads));
    std::int64_t extra = 0;
    for (std::size_t t = 0; t < fill.ranks.size(); ++t) {
      ASSERT_TRUE(drawn.topology.is_alive(fill.ranks[t]));
      ++loads[fill.ranks[t].index()];
      const auto k = static_cast<std::size_t>(batch.k);
      const auto visited = std::span(batch.visited).subspan(t * k, k);
      if (fill.ranks[t] != batch.home[t] && std::ranges::count(visited, fill.ranks[t]) == 0) ++extra;
    }
    ASSERT_EQ(fill.num_extra, extra);
    ASSERT_TRUE(anywhere || extra == 0);
    ASSERT_DOUBLE_EQ(fill.max_pressure, max_pressure(drawn.topology, loads));
  }
  EXPECT_GT(anywhere_count, 200);
  EXPECT_LT(anywhere_count, 2800);
}

/// Loads of `drawn` by the rank their tokens are on.
Loads draw_sources(const SplitCase& drawn, std::mt19937_64& random) {
  const auto experts = static_cast<std::size_t>(drawn.num_experts);
  Loads by_source(experts * static_cast<std::size_t>(drawn.topology.num_ranks()), 0);
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::int64_t token = 0; token < drawn.loads[e]; ++token) {
      const auto rank = static_cast<std::size_t>(draw(0, drawn.topology.num_ranks() - 1, random));
      ++by_source[rank * experts + e];
    }
  }
  return by_source;
}

std::vector<Loads> rows_of_sources(const SplitCase& drawn, const Loads& by_source, const Loads& assignments) {
  std::vector<Loads> rows;
  for (Rank source : ids<Rank>(drawn.topology.num_ranks())) {
    rows.push_back(
        split_of_source(drawn.row, drawn.num_experts, drawn.topology, by_source, assignments, source)
            .value());
  }
  return rows;
}

/// Counted from who sends what where.
Leaving leaving_of(const SplitCase& drawn, const std::vector<Loads>& rows) {
  Leaving leaving;
  const Topology& topology = drawn.topology;
  for (Rank source : ids<Rank>(rows.size())) {
    for (SlotId slot : ids<SlotId>(drawn.row.size())) {
      const Rank rank = topology.rank_of(slot);
      if (rank == source) continue;
      leaving.rank += rows[source.index()][slot.index()];
      if (topology.node_of(rank) != topology.node_of(source))
        leaving.node += rows[source.index()][slot.index()];
    }
  }
  return leaving;
}

TEST(SplitOfSource, RowsAddUpToTheSplitAndLeaveAsLittleAsPossible) {
  std::mt19937_64 random(4);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    const Loads by_source = draw_sources(drawn, random);
    const NearbySplit nearby =
        solve_nearby(drawn.row, drawn.num_experts, drawn.topology, by_source, 0.1 * draw(0, 3, random))
            .value();
    const auto rows = rows_of_sources(drawn, by_source, nearby.assignments);
    Loads sums(drawn.row.size(), 0);
    for (Rank source : ids<Rank>(rows.size())) {
      Loads sent(static_cast<std::size_t>(drawn.num_experts), 0);
      for (SlotId slot : ids<SlotId>(drawn.row.size())) {
        const std::int64_t amount = rows[source.index()][slot.index()];
        ASSERT_GE(amount, 0);
        sums[slot.index()] += amount;
        if (amount > 0) sent[drawn.row[slot.index()].index()] += amount;
      }
      for (std::size_t e = 0; e < sent.size(); ++e) {
        ASSERT_EQ(sent[e], by_source[source.index() * sent.size() + e]);
      }
    }
    ASSERT_EQ(sums, nearby.assignments);
    const Leaving leaving = leaving_of(drawn, rows);
    ASSERT_EQ(leaving.rank, nearby.after.rank);
    ASSERT_EQ(leaving.node, nearby.after.node);
    const Leaving before = leaving_of(drawn, rows_of_sources(drawn, by_source, exact_split(drawn)));
    ASSERT_EQ(before.rank, nearby.before.rank);
    ASSERT_EQ(before.node, nearby.before.node);
    ASSERT_LE(nearby.after.cost({}), nearby.before.cost({}));
  }
}

#ifdef TRIMTAB_TEST_WITH_LEMON

/// Sent from each source and expert to each slot at its price; ranks take what they may.
std::int64_t least_cost(const SplitCase& drawn, const Loads& by_source, double limit,
                        const LeavingCosts& costs) {
  using Graph = lemon::ListDigraph;
  Graph graph;
  Graph::ArcMap<std::int64_t> capacity(graph), cost(graph);
  const auto add = [&](Graph::Node from, Graph::Node to, std::int64_t most, std::int64_t price) {
    const Graph::Arc arc = graph.addArc(from, to);
    capacity[arc] = most;
    cost[arc] = price;
  };
  const Topology& topology = drawn.topology;
  const Graph::Node source = graph.addNode();
  const Graph::Node sink = graph.addNode();
  std::vector<Graph::Node> ranks;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    ranks.push_back(graph.addNode());
    const double room = topology.is_alive(rank) ? limit * topology.rank(rank).speed + 1e-9 : 0.0;
    add(ranks.back(), sink, static_cast<std::int64_t>(room), 0);
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < by_source.size(); ++i) {
    const Rank from{static_cast<Rank::rep>(i) / drawn.num_experts};
    const ExpertId expert{static_cast<ExpertId::rep>(i) % drawn.num_experts};
    const Graph::Node node = graph.addNode();
    add(source, node, by_source[i], 0);
    total += by_source[i];
    for (SlotId slot : ids<SlotId>(drawn.row.size())) {
      if (drawn.row[slot.index()] != expert || !topology.is_alive(slot)) continue;
      const Rank to = topology.rank_of(slot);
      const bool leaves_node = topology.node_of(to) != topology.node_of(from);
      add(node, ranks[to.index()], by_source[i],
          to == from ? 0 : costs.rank + (leaves_node ? costs.node : 0));
    }
  }
  lemon::NetworkSimplex<Graph, std::int64_t> simplex(graph);
  simplex.upperMap(capacity).costMap(cost).stSupply(source, sink, total);
  EXPECT_EQ(simplex.run(), (lemon::NetworkSimplex<Graph, std::int64_t>::OPTIMAL));
  return simplex.totalCost();
}

TEST(SolveNearby, IsAsCheapAsNetworkSimplexFinds) {
  std::mt19937_64 random(5);
  std::int64_t saved = 0;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    const Loads by_source = draw_sources(drawn, random);
    const double slack = 0.1 * draw(0, 4, random);
    const LeavingCosts costs{draw(0, 3, random), draw(0, 9, random)};
    const NearbySplit nearby =
        solve_nearby(drawn.row, drawn.num_experts, drawn.topology, by_source, slack, costs).value();
    const double limit = std::max((1.0 + slack) * best_pressure(drawn), best_whole_pressure(drawn));
    ASSERT_EQ(nearby.after.cost(costs), least_cost(drawn, by_source, limit, costs));
    ASSERT_LE(nearby.max_pressure, limit * (1.0 + 1e-12));
    ASSERT_DOUBLE_EQ(nearby.optimum, best_pressure(drawn));
    saved += nearby.before.cost(costs) - nearby.after.cost(costs);
    Loads served(static_cast<std::size_t>(drawn.num_experts), 0);
    for (SlotId slot : ids<SlotId>(drawn.row.size())) {
      if (nearby.assignments[slot.index()] == 0) continue;
      ASSERT_TRUE(drawn.topology.is_alive(slot));
      served[drawn.row[slot.index()].index()] += nearby.assignments[slot.index()];
    }
    ASSERT_EQ(served, drawn.loads);
  }
  EXPECT_GT(saved, 0);
}

/// Whether all load fits under `most` on each rank.
bool fits(const SplitCase& drawn, std::int64_t most) {
  using Graph = lemon::ListDigraph;
  Graph graph;
  Graph::ArcMap<std::int64_t> capacity(graph);
  const auto add = [&](Graph::Node from, Graph::Node to, std::int64_t room) {
    capacity[graph.addArc(from, to)] = room;
  };
  const Graph::Node source = graph.addNode();
  const Graph::Node sink = graph.addNode();
  std::vector<Graph::Node> ranks, experts;
  for (std::int32_t r = 0; r < drawn.topology.num_ranks(); ++r)
    add(ranks.emplace_back(graph.addNode()), sink, most);
  std::int64_t total = 0;
  for (std::int64_t load : drawn.loads) {
    add(source, experts.emplace_back(graph.addNode()), load);
    total += load;
  }
  for (SlotId slot : ids<SlotId>(drawn.row.size())) {
    const ExpertId expert = drawn.row[slot.index()];
    if (expert == no_expert || !drawn.topology.is_alive(slot)) continue;
    add(experts[expert.index()], ranks[drawn.topology.rank_of(slot).index()], drawn.loads[expert.index()]);
  }
  lemon::Preflow<Graph, Graph::ArcMap<std::int64_t>> preflow(graph, capacity, source, sink);
  preflow.run();
  return preflow.flowValue() == total;
}

// Too large for trying all sets of ranks.
TEST(SplitSolver, IsExactOnLargeCases) {
  std::mt19937_64 random(6);
  for (int repeat = 0; repeat < 300; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn =
        draw_split_case({.ranks = 60, .slots_per_rank = draw(1, 9, random), .load = 10000}, random);
    SplitSolver solver = SplitSolver::make(drawn.row, drawn.num_experts, drawn.topology).value();
    Loads assignments(drawn.row.size());
    const auto result = solver.solve(drawn.loads, assignments).value();
    const Loads loads = rank_loads_of(drawn, assignments);
    ASSERT_EQ(result.max_load, *std::ranges::max_element(loads));
    ASSERT_EQ(result.max_load, std::ceil(result.optimum - 1e-9));
    if (result.max_load == 0) continue;
    ASSERT_TRUE(fits(drawn, result.max_load));
    ASSERT_FALSE(fits(drawn, result.max_load - 1));
  }
}

#endif

LoadMatrix matrix_of(const SplitCase& drawn) {
  const std::vector<double> loads(drawn.loads.begin(), drawn.loads.end());
  return LoadMatrix::make(1, drawn.num_experts, loads).value();
}

// A Placement has as many slots as experts at least, and each expert one.
bool is_placement(const SplitCase& drawn) {
  return drawn.topology.num_slots() >= drawn.num_experts &&
         Placement::make(1, drawn.topology.num_slots(), drawn.num_experts, drawn.row).has_value();
}

TEST(SolveSplit, LeavesNoSmallShareWhereAnExpertHasAnother) {
  std::mt19937_64 random(7);
  SerialExecutor executor;
  int given_up = 0;
  for (int repeat = 0; repeat < 3000; ++repeat) {
    SCOPED_TRACE(repeat);
    const SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    if (!is_placement(drawn)) continue;
    const auto placement =
        Placement::make(1, drawn.topology.num_slots(), drawn.num_experts, drawn.row).value();
    const std::int64_t least = draw(0, 20, random);
    const auto plan =
        solve_split(matrix_of(drawn), placement, drawn.topology, {.min_assignments = least}, executor)
            .value();
    const LayerSplit& layer = plan.layers[0];
    if (layer.is_dense) continue;
    const auto assignments = plan.split.layer(LayerId{0});
    given_up += layer.num_given_up;
    Loads served(static_cast<std::size_t>(drawn.num_experts), 0);
    Loads used(served.size(), 0);
    for (SlotId slot : ids<SlotId>(drawn.row.size())) {
      if (assignments[slot.index()] == 0) continue;
      served[drawn.row[slot.index()].index()] += assignments[slot.index()];
      ++used[drawn.row[slot.index()].index()];
    }
    ASSERT_EQ(served, drawn.loads);
    for (SlotId slot : ids<SlotId>(drawn.row.size())) {
      const std::int64_t share = assignments[slot.index()];
      ASSERT_TRUE(share == 0 || share >= least || used[drawn.row[slot.index()].index()] == 1);
    }
    const Loads loads = rank_loads_of(drawn, {assignments.begin(), assignments.end()});
    ASSERT_DOUBLE_EQ(layer.max_pressure, max_pressure(drawn.topology, loads));
    ASSERT_GE(layer.max_pressure, best_whole_pressure(drawn) * (1.0 - 1e-12));
    ASSERT_DOUBLE_EQ(layer.optimum, best_pressure(drawn));
  }
  EXPECT_GT(given_up, 1000);
}

// Fractions: the split is in other units, its ratios and the report are not.
TEST(SolveSplit, ScalesFractionalLoads) {
  std::mt19937_64 random(8);
  SerialExecutor executor;
  for (int repeat = 0; repeat < 1000; ++repeat) {
    SCOPED_TRACE(repeat);
    SplitCase drawn = draw_split_case({.has_speeds = repeat % 2 == 0}, random);
    for (std::int64_t& load : drawn.loads) load = load == 0 ? 0 : 3 * load + 1;
    if (!is_placement(drawn)) continue;
    const auto placement =
        Placement::make(1, drawn.topology.num_slots(), drawn.num_experts, drawn.row).value();
    std::vector<double> loads;
    for (std::int64_t load : drawn.loads) loads.push_back(static_cast<double>(load) / 3.0);
    const auto matrix = LoadMatrix::make(1, drawn.num_experts, loads).value();
    const auto plan = solve_split(matrix, placement, drawn.topology, {}, executor).value();
    if (plan.layers[0].is_dense) continue;
    const double best = best_pressure(drawn) / 3.0;
    ASSERT_NEAR(plan.layers[0].optimum, best, 1e-9 * best);
    ASSERT_NEAR(plan.layers[0].max_pressure, best, 1e-8 * best);
    double total = 0.0;
    for (std::int64_t share : plan.split.layer(LayerId{0})) total += static_cast<double>(share);
    const double units = total / matrix.total(LayerId{0});
    for (ExpertId expert : ids<ExpertId>(drawn.num_experts)) {
      double share = 0.0;
      for (SlotId slot : placement.replicas(LayerId{0}, expert)) {
        share += static_cast<double>(plan.split.layer(LayerId{0})[slot.index()]);
      }
      ASSERT_NEAR(share / units, loads[expert.index()], 1e-10 * matrix.total(LayerId{0}));
    }
  }
}

}  // namespace
}  // namespace trimtab::test
