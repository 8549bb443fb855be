// SPDX-License-Identifier: Apache-2.0
#include "report/sweep_report.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trimtab::test {
namespace {

const std::vector<SlotSweepPoint> points{{.slots = 8,
                                          .redundant = 0,
                                          .even = {1.5, 1.75},
                                          .even_split = {1.5, 1.75},
                                          .exact = {1.25, 2.0},
                                          .exact_even = {1.4, 2.5}}};

TEST(SweepReport, DocumentHasAnEntryForEachPoint) {
  const auto document = sweep_document(points, 8, 3);
  EXPECT_EQ(document["schema"], "trimtab.sweep/1");
  EXPECT_EQ(document["experts"], 8);
  EXPECT_EQ(document["scenarios"], 3);
  ASSERT_EQ(document["points"].size(), 1U);
  EXPECT_EQ(document["points"][0]["slots"], 8);
  EXPECT_EQ(document["points"][0]["even"]["mean"], 1.5);
  EXPECT_EQ(document["points"][0]["even_split"]["worst"], 1.75);
  EXPECT_EQ(document["points"][0]["exact"]["worst"], 2.0);
  EXPECT_EQ(document["points"][0]["exact_even"]["mean"], 1.4);
}

TEST(SweepReport, TextSaysWhetherThereAreSeveralScenarios) {
  EXPECT_NE(sweep_text(points, 3).find("the worst of 3 load scenarios"), std::string::npos);
  EXPECT_EQ(sweep_text(points, 1).find("scenarios"), std::string::npos);
  EXPECT_NE(sweep_text(points, 1).find("1.2500 [2.0000]"), std::string::npos);
}

}  // namespace
}  // namespace trimtab::test
