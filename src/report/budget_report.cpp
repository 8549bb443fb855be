// SPDX-License-Identifier: Apache-2.0
#include "report/budget_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

struct Widths {
  std::int32_t least = 0;
  std::int32_t most = 0;
};

/// Slots per live rank over the layers that are not dense.
Widths widths_of(const SlotBudgetPlan& plan) {
  std::int32_t live = 0;
  for (Rank rank : ids<Rank>(plan.topology.num_ranks())) live += plan.topology.is_alive(rank) ? 1 : 0;
  Widths widths;
  for (std::int32_t slots : plan.slots) {
    if (slots == 0) continue;
    widths.least = widths.least == 0 ? slots / live : std::min(widths.least, slots / live);
    widths.most = std::max(widths.most, slots / live);
  }
  return widths;
}

}  // namespace

void add_slot_budget(nlohmann::ordered_json& document, const SlotBudgetPlan& plan, std::int64_t budget) {
  for (auto& entry : document.at("layers")) {
    entry["slots"] = plan.slots[entry.at("layer").get<std::size_t>()];
  }
  document.at("summary")["total_slots"] = plan.total_slots;
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  for (const SlotBudgetPoint& point : plan.curve) {
    curve.push_back({{"total_slots", point.total_slots}, {"max_load_sum", point.max_load_sum}});
  }
  document["slot_budget"] = {{"budget", budget}, {"curve", std::move(curve)}};
}

std::string slot_budget_text(const SlotBudgetPlan& plan, std::int64_t budget) {
  const Widths widths = widths_of(plan);
  const SlotBudgetPoint& fewest = plan.curve.front();
  const double more = plan.curve.back().max_load_sum > 0.0
                          ? 100.0 * (fewest.max_load_sum / plan.curve.back().max_load_sum - 1.0)
                          : 0.0;
  return fmt::format(
      "budget     {} of {} slots used, {} to {} per rank and layer; the fewest, {}, would load the fullest "
      "ranks by {:.1f} % more\n",
      plan.total_slots, budget, widths.least, widths.most, fewest.total_slots, more);
}

}  // namespace trimtab
