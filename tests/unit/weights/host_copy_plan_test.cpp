// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/host_copy_plan.hpp>

#include "support/placements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <compare>
#include <numeric>
#include <random>
#include <vector>

namespace trimtab::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr LayerId layer{0};

/// What a plan is judged by, the less the better: copies beside a slot of their own expert, then on its node.
struct Cost {
  int on_serving_ranks = 0;
  int on_serving_nodes = 0;
  // clang-tidy 14 takes the 0 of a rewritten comparison for a pointer.
  friend auto operator<=>(const Cost&, const Cost&) = default;  // NOLINT(modernize-use-nullptr)
};

Cost cost_of(const Placement& placement, const Topology& topology, LayerExpert what, Rank keeper) {
  Cost cost;
  for (const SlotId slot : placement.replicas(what.layer, what.expert)) {
    const Rank serving = topology.rank_of(slot);
    if (!topology.is_alive(serving)) continue;
    if (serving == keeper) return {1, 0};
    if (topology.node_of(serving) == topology.node_of(keeper)) cost.on_serving_nodes = 1;
  }
  return cost;
}

Cost operator+(Cost a, Cost b) {
  return {a.on_serving_ranks + b.on_serving_ranks, a.on_serving_nodes + b.on_serving_nodes};
}

/// The least cost of keeping all of `kept`, by trying everything.
Cost least_cost(const Placement& placement, const Topology& topology, std::span<const LayerExpert> kept,
                std::vector<std::int32_t> room) {
  if (kept.empty()) return {};
  Cost least{1000, 0};
  for (const Rank rank : ids<Rank>(topology.num_ranks())) {
    if (room[rank.index()] == 0 || !topology.is_alive(rank)) continue;
    --room[rank.index()];
    least = std::min(least, cost_of(placement, topology, kept.front(), rank) +
                                least_cost(placement, topology, kept.subspan(1), room));
    ++room[rank.index()];
  }
  return least;
}

std::size_t num_serving(const Placement& placement, const Topology& topology, LayerExpert what) {
  std::vector<Rank> ranks;
  for (const SlotId slot : placement.replicas(what.layer, what.expert)) {
    if (topology.is_alive(slot)) ranks.push_back(topology.rank_of(slot));
  }
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks.size();
}

struct Outcome {
  std::vector<LayerExpert> kept;
  Cost cost;
  std::size_t least_danger_kept = 0;        ///< Most ranks that serve something kept …
  std::size_t greatest_danger_left = 1000;  ///< … and fewest that serve something that is not.
  bool is_within_budgets = true;
};

Outcome judge(const HostCopyPlan& plan, const Placement& placement, const Topology& topology,
              std::span<const std::int32_t> budgets) {
  Outcome outcome;
  for (const Rank rank : ids<Rank>(topology.num_ranks())) {
    const auto kept = plan.kept_by(rank);
    const std::int32_t room = topology.is_alive(rank) ? budgets[rank.index()] : 0;
    if (kept.size() > static_cast<std::size_t>(room)) outcome.is_within_budgets = false;
    for (const LayerExpert what : kept) {
      outcome.kept.push_back(what);
      outcome.cost = outcome.cost + cost_of(placement, topology, what, rank);
    }
  }
  for (const LayerId l : ids<LayerId>(placement.num_layers())) {
    for (const ExpertId expert : ids<ExpertId>(placement.num_experts())) {
      const std::size_t serving = num_serving(placement, topology, {l, expert});
      if (!plan.keepers(l, expert).empty()) {
        outcome.least_danger_kept = std::max(outcome.least_danger_kept, serving);
      } else if (serving > 0) {
        outcome.greatest_danger_left = std::min(outcome.greatest_danger_left, serving);
      }
    }
  }
  return outcome;
}

/// Up to four ranks, some of them dead, and up to six experts, each at the same place on one to three ranks.
struct Case {
  explicit Case(std::uint64_t seed) : random_(seed) {
    const std::int32_t num_experts = draw(2, 6);
    const std::int32_t num_ranks = draw(2, 4);
    const std::int32_t num_nodes = draw(1, num_ranks);
    std::vector<RankInfo> infos;
    for (std::int32_t r = 0; r < num_ranks; ++r) {
      infos.push_back({NodeId{r * num_nodes / num_ranks}, num_experts, 1.0, r == 0 || draw(0, 5) > 0});
      budgets.push_back(draw(0, 3));
    }
    topology = *Topology::make(infos);
    std::vector<ExpertId> map(static_cast<std::size_t>(topology.num_slots()), no_expert);
    for (const ExpertId expert : ids<ExpertId>(num_experts)) {
      for (std::int32_t i = draw(1, 3); i > 0; --i) {
        const Rank rank{draw(0, num_ranks - 1)};
        map[topology.slots_of(rank).first().index() + expert.index()] = expert;
      }
    }
    placement = *Placement::make(1, topology.num_slots(), num_experts, map);
  }

  [[nodiscard]] std::size_t room() const {
    std::size_t sum = 0;
    for (const Rank rank : ids<Rank>(topology.num_ranks())) {
      if (topology.is_alive(rank)) sum += static_cast<std::size_t>(budgets[rank.index()]);
    }
    return sum;
  }
  [[nodiscard]] std::size_t num_not_lost() const {
    return static_cast<std::size_t>(placement.num_experts()) - find_lost(placement, topology).size();
  }

  Topology topology = uniform(1, 1, 1);
  Placement placement = one_layer(1, {0});
  std::vector<std::int32_t> budgets;

 private:
  std::int32_t draw(std::int32_t first, std::int32_t last) {
    return first + static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(last - first + 1));
  }

  std::mt19937_64 random_;
};

TEST(HostCopyPlan, CostsAsLittleAsTryingEverythingFinds) {
  int num_tight = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Case drawn(seed);
    const auto plan = plan_host_copies(drawn.placement, drawn.topology, drawn.budgets);
    ASSERT_TRUE(plan) << plan.error().message;
    const Outcome outcome = judge(*plan, drawn.placement, drawn.topology, drawn.budgets);
    EXPECT_TRUE(outcome.is_within_budgets) << seed;
    EXPECT_LE(outcome.least_danger_kept, outcome.greatest_danger_left) << seed;
    EXPECT_EQ(outcome.kept.size(), std::min(drawn.room(), drawn.num_not_lost())) << seed;
    EXPECT_EQ(outcome.cost, least_cost(drawn.placement, drawn.topology, outcome.kept, drawn.budgets)) << seed;
    if (outcome.cost > Cost{}) ++num_tight;
  }
  EXPECT_GT(num_tight, 100) << "cases in which not everything fits where it should be";
}

TEST(HostCopyPlan, PushesACopyOnWhereThatMakesRoom) {
  // The second copy has only rank 1 to go to, which the first one took; the first may lie anywhere.
  const Placement placement = one_layer(2, {0, -1, -1, -1, 1, 1});
  std::vector<RankInfo> ranks(3, RankInfo{NodeId{0}, 2});
  const auto plan = plan_host_copies(placement, *Topology::make(ranks), std::vector{0, 2, 1});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->keepers(layer, ExpertId{1}), ElementsAre(Rank{1}));
  const auto tight = plan_host_copies(placement, *Topology::make(ranks), std::vector{0, 1, 1});
  ASSERT_TRUE(tight);
  EXPECT_THAT(tight->keepers(layer, ExpertId{0}), ElementsAre(Rank{2}));
  EXPECT_THAT(tight->keepers(layer, ExpertId{1}), ElementsAre(Rank{1}));
}

TEST(HostCopyPlan, SpreadsOverRanksByTheirRoom) {
  const Placement placement = one_layer(12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto plan = plan_host_copies(placement, uniform(4, 2, 12), std::vector{100, 100, 100, 100});
  ASSERT_TRUE(plan);
  for (const Rank rank : ids<Rank>(4)) EXPECT_EQ(plan->kept_by(rank).size(), 3U) << rank.value();
}

TEST(HostCopyPlan, IsTheSameForTheSameInput) {
  const Placement placement = random_placement(3, 40, 24, 7);
  const std::vector<std::int32_t> budgets(8, 9);
  EXPECT_EQ(*plan_host_copies(placement, uniform(8, 2, 40), budgets),
            *plan_host_copies(placement, uniform(8, 2, 40), budgets));
}

TEST(HostCopyPlan, RefusesBudgetsThatAreNone) {
  const Placement placement = one_layer(2, {0, 1});
  const auto message = [&](const Topology& topology, const std::vector<std::int32_t>& budgets) {
    const auto plan = plan_host_copies(placement, topology, budgets);
    return plan ? std::string("accepted") : plan.error().message;
  };
  EXPECT_THAT(message(uniform(2, 1, 2), {1}), HasSubstr("1 budgets for 2 ranks"));
  EXPECT_THAT(message(uniform(2, 1, 2), {1, -3}), HasSubstr("rank 1: a budget of -3 bundles"));
  EXPECT_THAT(message(uniform(2, 1, 4), {1, 1}), HasSubstr("the placement has 2 slots, the topology 4"));
}

TEST(HostCopyPlan, IsToldByTheCallerAsWell) {
  HostCopyPlan plan(2);
  EXPECT_TRUE(plan.add(layer, ExpertId{3}, Rank{1}));
  EXPECT_TRUE(plan.add(layer, ExpertId{3}, Rank{0}));
  EXPECT_THAT(plan.keepers(layer, ExpertId{3}), ElementsAre(Rank{1}, Rank{0}));
  EXPECT_THAT(plan.kept_by(Rank{0}), ElementsAre(LayerExpert{layer, ExpertId{3}}));
  EXPECT_THAT(plan.keepers(LayerId{1}, ExpertId{3}), IsEmpty());
  EXPECT_THAT(plan.add(layer, ExpertId{3}, Rank{1}).error().message,
              HasSubstr("layer 0, expert 3: rank 1 keeps it already"));
  EXPECT_THAT(plan.add(layer, ExpertId{4}, Rank{2}).error().message, HasSubstr("rank 2 is not in 0..1"));
  EXPECT_THAT(plan.keepers(layer, ExpertId{4}), IsEmpty());
}

}  // namespace
}  // namespace trimtab::test
