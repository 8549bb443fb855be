// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/slot_budget.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "plan/choose_widths.hpp"
#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"
#include "support/recorded_loads.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<SlotBudgetPlan> try_budget(const LoadMatrix& loads, const Topology& ranks, std::int64_t slots,
                                  const PlanOptions& options = {}) {
  SerialExecutor executor;
  return plan_slot_budget(loads, ranks, slots, options, executor);
}

/// What a layer costs at one width, planned alone.
double cost(const LoadMatrix& loads, LayerId layer, std::int32_t ranks, std::int32_t width) {
  const auto topology = Topology::make_uniform(ranks, 1, ranks * width).value();
  const auto row = loads.layer(layer);
  const auto alone = loads_of({1, loads.num_experts()}, {row.begin(), row.end()});
  return plan_of(alone, topology).layers[0].imbalance * loads.total(layer) / ranks;
}

double cost_of_uniform(const LoadMatrix& loads, std::int32_t ranks, std::int32_t width) {
  double sum = 0.0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (!loads.is_dense(layer)) sum += cost(loads, layer, ranks, width);
  }
  return sum;
}

double cost_of(const SlotBudgetPlan& made, const LoadMatrix& loads) {
  double sum = 0.0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) continue;
    sum += imbalance_of(loads, made.plan.placement, layer, made.topology) * loads.total(layer) /
           made.topology.total_speed();
  }
  return sum;
}

/// Every promise but how good it is.
void expect_sound(const SlotBudgetPlan& made, const LoadMatrix& loads, std::int64_t budget) {
  ASSERT_TRUE(check_live(made.plan.placement, made.topology).has_value());
  EXPECT_EQ(std::accumulate(made.slots.begin(), made.slots.end(), std::int64_t{0}), made.total_slots);
  EXPECT_LE(made.total_slots, budget);
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const auto row = made.plan.placement.layer(layer);
    EXPECT_EQ(made.plan.layers[layer.index()].layer, layer);
    EXPECT_EQ(made.plan.layers[layer.index()].is_dense, loads.is_dense(layer));
    if (loads.is_dense(layer)) {
      EXPECT_EQ(made.slots[layer.index()], 0);
      continue;
    }
    const auto used = std::ssize(row) - std::count(row.begin(), row.end(), no_expert);
    EXPECT_EQ(used, made.slots[layer.index()]);
    EXPECT_EQ(duplicates_in(made.plan.placement, layer, made.topology), 0);
    EXPECT_NEAR(imbalance_of(loads, made.plan.placement, layer, made.topology),
                made.plan.layers[layer.index()].imbalance, 1e-9);
  }
  EXPECT_EQ(made.curve.back().total_slots, made.total_slots);
  EXPECT_NEAR(made.curve.back().max_load_sum, cost_of(made, loads), 1e-9 * cost_of(made, loads));
  for (std::size_t i = 1; i < made.curve.size(); ++i) {
    EXPECT_LT(made.curve[i - 1].total_slots, made.curve[i].total_slots);
    EXPECT_GT(made.curve[i - 1].max_load_sum, made.curve[i].max_load_sum);
  }
}

TEST(SlotBudget, GivesUnevenLayersMore) {
  // One layer is level without a copy, the other has one expert with nearly all the load.
  const auto loads = loads_of({2, 4}, {5, 5, 5, 5, 97, 1, 1, 1});
  const auto made = try_budget(loads, Topology::make_uniform(2, 1, 2).value(), 12).value();
  expect_sound(made, loads, 12);
  EXPECT_THAT(made.slots, ElementsAre(4, 6));
}

TEST(SlotBudget, LeavesSlotsThatWouldNotHelp) {
  const auto loads = loads_of({2, 4}, {5, 5, 5, 5, 97, 1, 1, 1});
  const auto made = try_budget(loads, Topology::make_uniform(2, 1, 2).value(), 1000).value();
  expect_sound(made, loads, 1000);
  EXPECT_LE(made.total_slots, 12);
}

TEST(SlotBudget, FindsTheBestOfAllChoicesOfWidths) {
  constexpr std::int32_t num_ranks = 3;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto loads = lognormal_loads({3, 6}, 1.2, seed);
    for (std::int32_t widths = 6; widths <= 12; ++widths) {
      double best = std::numeric_limits<double>::infinity();
      for (std::int32_t a = 2; a <= 6; ++a) {
        for (std::int32_t b = 2; b <= 6; ++b) {
          for (std::int32_t c = 2; c <= std::min(6, widths - a - b); ++c) {
            best =
                std::min(best, cost(loads, LayerId{0}, num_ranks, a) + cost(loads, LayerId{1}, num_ranks, b) +
                                   cost(loads, LayerId{2}, num_ranks, c));
          }
        }
      }
      const std::int64_t budget = widths * num_ranks + static_cast<std::int64_t>(seed % 3);
      const auto made =
          try_budget(loads, Topology::make_uniform(num_ranks, 1, num_ranks).value(), budget).value();
      expect_sound(made, loads, budget);
      EXPECT_LE(cost_of(made, loads), best * 1.003) << "seed " << seed << ", " << widths;
      EXPECT_GE(cost_of(made, loads), best * (1.0 - 1e-12));
    }
  }
}

// Same total: at most 0.1 % worse where slots were left over, and better where layers differ.
void expect_no_worse_than_uniform(const LoadMatrix& loads, std::int32_t ranks, std::int32_t width) {
  std::int64_t layers = 0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) layers += loads.is_dense(layer) ? 0 : 1;
  const std::int64_t budget = layers * ranks * width;
  const auto made = try_budget(loads, Topology::make_uniform(ranks, 1, ranks).value(), budget).value();
  expect_sound(made, loads, budget);
  EXPECT_LE(cost_of(made, loads), cost_of_uniform(loads, ranks, width) * 1.001);
}

TEST(SlotBudget, IsNoWorseThanTheSameWidthForAllLayers) {
  for (std::int32_t width : {8, 9, 12})
    expect_no_worse_than_uniform(outlier_loads({10, 256}, 0.6, 5), 32, width);
  for (std::int32_t width : {2, 3, 5}) expect_no_worse_than_uniform(zipf_loads({6, 128}, 1.2, 5), 64, width);
}

TEST(SlotBudget, IsBetterThanTheSameWidthWhereLayersDiffer) {
  // Four layers are level without a copy; the fifth is steep.
  std::vector<double> values(4 * 64, 1000.0);
  const auto steep = zipf_loads({1, 64}, 1.2, 3);
  values.insert(values.end(), steep.layer(LayerId{0}).begin(), steep.layer(LayerId{0}).end());
  const auto loads = loads_of({5, 64}, std::move(values));
  const auto made = try_budget(loads, Topology::make_uniform(64, 1, 64).value(), 5 * 64 * 2).value();
  expect_sound(made, loads, 5 * 64 * 2);
  EXPECT_LT(cost_of(made, loads), 0.99 * cost_of_uniform(loads, 64, 2));
  EXPECT_EQ(made.slots.front(), 64);
  EXPECT_GT(made.slots.back(), 64 * 2);
}

TEST(SlotBudget, IsNoWorseThanTheSameWidthOnRecordedLoads) {
  const auto files = recorded_loads("deepseek-v3_decode");
  if (files.empty()) GTEST_SKIP() << "TRIMTAB_LOADS_DIR names no folder with deepseek-v3_* files";
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename());
    expect_no_worse_than_uniform(read_loads(file), 144, 2);
  }
}

TEST(SlotBudget, CostsNothingForDenseLayers) {
  const auto loads = loads_of({3, 4}, {0, 0, 0, 0, 9, 1, 1, 1, 0, 0, 0, 0});
  const auto made = try_budget(loads, Topology::make_uniform(2, 1, 2).value(), 6).value();
  expect_sound(made, loads, 6);
  EXPECT_THAT(made.slots, ElementsAre(0, 6, 0));
  for (SlotId slot : ids<SlotId>(6)) {
    EXPECT_EQ(made.plan.placement.expert_at(LayerId{0}, slot).value(), slot.value() % 4);
  }
}

TEST(SlotBudget, TakesLoadsWithoutAnyLayer) {
  const auto made =
      try_budget(uniform_loads({2, 8}, 0.0), Topology::make_uniform(2, 1, 2).value(), 0).value();
  EXPECT_EQ(made.total_slots, 0);
  EXPECT_TRUE(made.plan.layers[1].is_dense);
}

TEST(SlotBudget, UsesLiveRanksOnly) {
  const auto topology =
      Topology::make({{NodeId{0}, 0}, {NodeId{0}, 0, 1.0, false}, {NodeId{0}, 0, 2.0}}).value();
  const auto loads = lognormal_loads({3, 12}, 1.0, 4);
  const auto made = try_budget(loads, topology, 60).value();
  expect_sound(made, loads, 60);
  for (SlotId slot : made.topology.slots_of(Rank{1})) {
    EXPECT_EQ(made.plan.placement.expert_at(LayerId{0}, slot), no_expert);
  }
}

TEST(SlotBudget, KeepsGroupsInNodes) {
  const auto loads = outlier_loads({3, 64}, 0.6, 4);
  const auto made =
      try_budget(loads, Topology::make_uniform(8, 4, 8).value(), 3 * 8 * 10, {.num_groups = 8}).value();
  expect_sound(made, loads, 3 * 8 * 10);
  EXPECT_EQ(made.plan.locality, Locality::group_strict);
}

TEST(SlotBudget, RefusesABudgetBelowOneSlotPerExpert) {
  const auto loads = lognormal_loads({4, 10}, 1.0, 4);
  const auto made = try_budget(loads, Topology::make_uniform(4, 1, 4).value(), 47);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Errc::infeasible);
  EXPECT_THAT(made.error().message,
              HasSubstr("47 slots in total < 48: 4 layers with 3 slots on each of 4 live ranks"));
  EXPECT_TRUE(try_budget(loads, Topology::make_uniform(4, 1, 4).value(), 48).has_value());
}

TEST(SlotBudget, PassesOnWhatThePlannerRefuses) {
  const auto loads = lognormal_loads({4, 10}, 1.0, 4);
  const auto made = try_budget(loads, Topology::make_uniform(4, 1, 4).value(), 1000, {.num_groups = 3});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Errc::invalid_argument);
}

TEST(SlotBudget, IsTheSameOnAnyNumberOfThreads) {
  const auto loads = outlier_loads({12, 64}, 0.8, 4);
  const auto topology = Topology::make_uniform(16, 1, 16).value();
  const auto alone = try_budget(loads, topology, 12 * 16 * 5).value();
  for (std::size_t threads : {2U, 7U}) {
    ThreadedExecutor executor(threads);
    const auto made = plan_slot_budget(loads, topology, 12 * 16 * 5, {}, executor).value();
    EXPECT_EQ(made.plan.placement, alone.plan.placement);
    EXPECT_EQ(made.slots, alone.slots);
  }
}

TEST(ChooseWidths, TakesAStepThatPaysOnlyTogetherWithTheNext) {
  const std::vector<std::vector<double>> curves{{10, 10, 2}, {10, 9, 8}};
  const WidthChoice choice = choose_widths(curves, 3);
  EXPECT_THAT(choice.least_cost, ElementsAre(20, 19, 12, 11));
  EXPECT_THAT(steps_of(choice, 2), ElementsAre(2, 0));
  EXPECT_THAT(steps_of(choice, 3), ElementsAre(2, 1));
}

TEST(ChooseWidths, SpendsNothingForNothing) {
  const std::vector<std::vector<double>> curves{{5, 7, 5}, {3}};
  const WidthChoice choice = choose_widths(curves, 100);
  EXPECT_THAT(choice.least_cost, ElementsAre(8, 8, 8));
  EXPECT_THAT(steps_of(choice, 2), ElementsAre(0, 0));
}

}  // namespace
}  // namespace trimtab::test
