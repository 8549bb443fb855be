// SPDX-License-Identifier: Apache-2.0
#include "report/split_report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trimtab::test {
namespace {

LayerSplit make_layer(std::int32_t layer, double even, double exact, double waterfilled) {
  LayerSplit made{};
  made.layer = LayerId{layer};
  made.even = even;
  made.exact = exact;
  made.waterfilled = waterfilled;
  return made;
}

LayerSplit make_dense(std::int32_t layer) {
  LayerSplit made = make_layer(layer, 1.0, 1.0, 1.0);
  made.is_dense = true;
  return made;
}

SplitReport two_loaded_layers() {
  std::vector<LayerSplit> layers{make_dense(0), make_layer(1, 1.5, 1.0, 1.0), make_layer(2, 2.0, 1.5, 1.25)};
  layers[2].tight_ranks = {Rank{1}};
  layers[2].tight_experts = {ExpertId{4}, ExpertId{5}, ExpertId{6}, ExpertId{7}, ExpertId{8}};
  return {.plan = {*Split::make(3, 2, {0, 0, 10, 20, 30, 40}), std::move(layers)},
          .noise_floor = 1.125,
          .batch_assignments = 4096,
          .solve_us_median = 7.5};
}

TEST(SplitReport, DocumentHasTheStableKeysAndNoDenseLayers) {
  const auto document = split_document(two_loaded_layers(), {}, false);
  EXPECT_EQ(document["schema"], "trimtab.split/1");
  ASSERT_EQ(document["layers"].size(), 2U);
  const auto& worst = document["layers"][1];
  EXPECT_EQ(worst["layer"], 2);
  EXPECT_EQ(worst["even"], 2.0);
  EXPECT_EQ(worst["exact"], 1.5);
  EXPECT_EQ(worst["noise_floor"], 1.125);
  EXPECT_EQ(worst["waterfill"], 1.25);
  EXPECT_EQ(worst["tight_ranks"], std::vector{1});
  EXPECT_EQ(worst["tight_experts"], (std::vector{4, 5, 6, 7, 8}));
  EXPECT_FALSE(worst.contains("assignments"));
}

TEST(SplitReport, SummaryAveragesOverLayersThatCarryLoad) {
  const auto summary = split_document(two_loaded_layers(), {}, false)["summary"];
  EXPECT_EQ(summary["even_mean"], 1.75);
  EXPECT_EQ(summary["even_worst"], 2.0);
  EXPECT_EQ(summary["exact_mean"], 1.25);
  EXPECT_EQ(summary["exact_worst"], 1.5);
  EXPECT_EQ(summary["noise_floor_mean"], 1.125);
  EXPECT_EQ(summary["waterfill_mean"], 1.125);
  EXPECT_EQ(summary["solve_us_median"], 7.5);
}

TEST(SplitReport, TellsTheSharesWhenAsked) {
  const auto document = split_document(two_loaded_layers(), {}, true);
  EXPECT_EQ(document["layers"][0]["assignments"], (std::vector{10, 20}));
}

TEST(SplitReport, ListsTheWorstLayersFirstAndAveragesAll) {
  const auto document = split_document(two_loaded_layers(), 1, false);
  ASSERT_EQ(document["layers"].size(), 1U);
  EXPECT_EQ(document["layers"][0]["layer"], 2);
  EXPECT_EQ(document["summary"]["layers"], 2);
}

TEST(SplitReport, TextSaysWhatHoldsTheSplitUp) {
  const std::string text = split_text(two_loaded_layers(), {});
  EXPECT_NE(text.find("rank 1: expert 4 5 6 7 and 1 more"), std::string::npos) << text;
  EXPECT_NE(text.find("the mean"), std::string::npos) << text;
}

TEST(SplitReport, OfNoLoadSaysSo) {
  const SplitReport none{.plan = {*Split::make(1, 1, {0}), {make_dense(0)}}};
  EXPECT_EQ(split_text(none, {}), "no layer carries load\n");
  EXPECT_EQ(split_document(none, {}, false)["summary"]["layers"], 0);
}

}  // namespace
}  // namespace trimtab::test
