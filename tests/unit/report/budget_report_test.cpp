// SPDX-License-Identifier: Apache-2.0
#include "report/budget_report.hpp"

#include <gtest/gtest.h>

#include "report/plan_report.hpp"

namespace trimtab::test {
namespace {

/// Two layers of two experts on two ranks: the first is level, the second needs copies; a dense one between.
SlotBudgetPlan small_plan() {
  const auto loads = LoadMatrix::make(3, 2, {5, 5, 0, 0, 9, 1}).value();
  SerialExecutor executor;
  return plan_slot_budget(loads, Topology::make_uniform(2, 1, 2).value(), 7, {}, executor).value();
}

TEST(BudgetReport, TellsSlotsByLayerAndInTotal) {
  const SlotBudgetPlan made = small_plan();
  nlohmann::ordered_json document = plan_document(made.plan, summarize(made.plan), 1.0);
  add_slot_budget(document, made, 7);
  EXPECT_EQ(document.at("/layers/0/slots"_json_pointer), 2);
  EXPECT_EQ(document.at("/layers/1/layer"_json_pointer), 2);
  EXPECT_EQ(document.at("/layers/1/slots"_json_pointer), 4);
  EXPECT_EQ(document.at("/summary/total_slots"_json_pointer), 6);
  EXPECT_EQ(document.at("/slot_budget/budget"_json_pointer), 7);
  EXPECT_EQ(document.at("/slot_budget/curve/0/total_slots"_json_pointer), 4);
  EXPECT_EQ(document.at("/slot_budget/curve/0/max_load_sum"_json_pointer), 14.0);
  EXPECT_EQ(document.at("/slot_budget/curve/1/max_load_sum"_json_pointer), 10.0);
}

TEST(BudgetReport, TellsAPersonWhatIsUsed) {
  const std::string text = slot_budget_text(small_plan(), 7);
  EXPECT_NE(text.find("6 of 7 slots used, 1 to 2 per rank and layer"), std::string::npos) << text;
  EXPECT_NE(text.find("the fewest, 4, would load the fullest ranks by 40.0 % more"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace trimtab::test
