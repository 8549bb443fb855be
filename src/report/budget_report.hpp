// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/slot_budget.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace trimtab {

/// Adds to a document `trimtab.plan/1` of `plan.plan`: `slots` of each layer, `total_slots` of the summary,
/// and `slot_budget` with the curve (docs/formats/json-output.md).
void add_slot_budget(nlohmann::ordered_json& document, const SlotBudgetPlan& plan, std::int64_t budget);

/// Lines for a person, to follow plan_text: how much of the budget is used and what less would cost.
[[nodiscard]] std::string slot_budget_text(const SlotBudgetPlan& plan, std::int64_t budget);

}  // namespace trimtab
