// SPDX-License-Identifier: Apache-2.0
#include "report/plan_report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trimtab::test {
namespace {

Plan make_plan(std::vector<LayerReport> layers) {
  auto placement = Placement::identity(static_cast<std::int32_t>(layers.size()), 4, 3);
  return Plan{std::move(*placement), std::move(layers), Locality::none};
}

Plan three_layers() {
  return make_plan({{.layer = LayerId{0}, .is_dense = true},
                    {.layer = LayerId{1}, .imbalance_before = 2.0, .imbalance = 1.2, .bound = 1.0},
                    {.layer = LayerId{2},
                     .imbalance_before = 3.0,
                     .imbalance = 1.5,
                     .bound = 1.25,
                     .duplicates_on_rank = 2}});
}

TEST(PlanReport, AveragesOverLayersThatAreNotDense) {
  const PlanSummary summary = summarize(three_layers());
  EXPECT_EQ(summary.layers, 2);
  EXPECT_DOUBLE_EQ(summary.imbalance_before_mean, 2.5);
  EXPECT_DOUBLE_EQ(summary.imbalance_mean, 1.35);
  EXPECT_DOUBLE_EQ(summary.bound_mean, 1.125);
  EXPECT_DOUBLE_EQ(summary.gap_mean, 0.2);
  EXPECT_DOUBLE_EQ(summary.imbalance_worst, 1.5);
  EXPECT_EQ(summary.worst_layer, LayerId{2});
  EXPECT_EQ(summary.duplicates_on_rank, 2);
}

TEST(PlanReport, TellsTheExactSplitWhereItWasPlannedFor) {
  const Plan even = three_layers();
  EXPECT_FALSE(plan_document(even, summarize(even), 1.0)["summary"].contains("imbalance_exact_mean"));
  Plan exact = three_layers();
  exact.layers[1].imbalance_exact = 1.0;
  exact.layers[2].imbalance_exact = 1.25;
  const auto document = plan_document(exact, summarize(exact), 1.0);
  EXPECT_EQ(document["layers"][1]["imbalance_exact"], 1.25);
  EXPECT_EQ(document["summary"]["imbalance_exact_mean"], 1.125);
  EXPECT_EQ(document["summary"]["imbalance_exact_worst"], 1.25);
  EXPECT_EQ(document["summary"]["gap_mean"], 0.0);
  const std::string text = plan_text(exact, summarize(exact), *Topology::make_uniform(2, 1, 4), 1.0);
  EXPECT_NE(text.find("exact      1.1250, worst 1.2500"), std::string::npos) << text;
}

TEST(PlanReport, NothingToAverageIsPerfect) {
  const PlanSummary summary = summarize(make_plan({{.layer = LayerId{0}, .is_dense = true}}));
  EXPECT_EQ(summary.layers, 0);
  EXPECT_EQ(summary.imbalance_mean, 1.0);
  EXPECT_EQ(summary.bound_mean, 1.0);
}

TEST(PlanReport, DocumentHasTheStableKeysAndNoDenseLayers) {
  const Plan plan = three_layers();
  const auto document = plan_document(plan, summarize(plan), 12.5);
  EXPECT_EQ(document["schema"], "trimtab.plan/1");
  ASSERT_EQ(document["layers"].size(), 2U);
  EXPECT_EQ(document["layers"][0]["layer"], 1);
  for (const char* key : {"layer", "imbalance_before", "imbalance", "bound"}) {
    EXPECT_TRUE(document["layers"][1].contains(key)) << key;
  }
  for (const char* key : {"layers", "imbalance_before_mean", "imbalance_mean", "imbalance_worst",
                          "bound_mean", "plan_ms", "duplicates_on_rank"}) {
    EXPECT_TRUE(document["summary"].contains(key)) << key;
  }
  EXPECT_EQ(document["summary"]["plan_ms"], 12.5);
}

TEST(PlanReport, TextTellsBeforeAfterBoundGapAndSlots) {
  const Plan plan = three_layers();
  const auto topology = Topology::make_uniform(2, 1, 4);
  const std::string text = plan_text(plan, summarize(plan), *topology, 12.5);
  for (const char* part : {"2.5000 -> 1.3500", "1.1250, gap 20.00 %", "1.5000 in layer 2",
                           "4 per layer for 3 experts: 2 on each of 2 ranks, 1 node", "locality   none",
                           "12.5 ms", "duplicates 2 slots"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
  }
}

}  // namespace
}  // namespace trimtab::test
