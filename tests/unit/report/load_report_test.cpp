// SPDX-License-Identifier: Apache-2.0
#include "report/load_report.hpp"

#include <gtest/gtest.h>

#include <string>

namespace trimtab::test {
namespace {

LoadMatrix example() { return *LoadMatrix::make(3, 4, {0, 0, 0, 0, 1, 2, 3, 6, 5, 5, 5, 5}); }

TEST(LoadReport, ListsLayersThatCarryLoad) {
  const LoadReport report = inspect_loads(example(), 1, std::nullopt);
  EXPECT_EQ(report.dense_layers, (std::vector<std::int32_t>{0}));
  ASSERT_EQ(report.layers.size(), 2U);
  EXPECT_EQ(report.layers[0].layer, LayerId{1});
  EXPECT_EQ(report.layers[0].total, 12.0);
  EXPECT_EQ(report.layers[0].mean, 3.0);
  EXPECT_EQ(report.layers[0].hottest, ExpertId{3});
  EXPECT_EQ(report.layers[1].hottest, ExpertId{0});  // The lowest of equals.
  EXPECT_FALSE(report.layers[0].ranks);
}

TEST(LoadReport, SpreadsOverRanks) {
  const auto placement = Placement::identity(3, 4, 4);
  const auto topology = Topology::make_uniform(2, 1, 4);
  const LoadReport report = inspect_loads(example(), 1, Spread{*placement, *topology});
  EXPECT_EQ(report.layers[0].ranks->max_over_mean(), 1.5);
  const auto document = load_document(report, std::nullopt);
  EXPECT_EQ(document["summary"]["imbalance_mean"], 1.25);
  EXPECT_EQ(document["summary"]["worst_layer"], 1);
}

TEST(LoadReport, SummaryIsOverAllLayersWhateverIsListed) {
  const LoadReport report = inspect_loads(example(), 1, std::nullopt);
  const auto top = load_document(report, 1);
  EXPECT_EQ(top["layers"].size(), 1U);
  EXPECT_EQ(top["summary"], load_document(report, std::nullopt)["summary"]);
}

}  // namespace
}  // namespace trimtab::test
