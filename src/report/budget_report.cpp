// SPDX-License-Identifier: Apache-2.0
#include "report/budget_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

std::int32_t count_live(const Topology& topology) {
  std::int32_t live = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) live += topology.is_alive(rank) ? 1 : 0;
  return std::max(1, live);
}

/// "8 to 11": slots per live rank over the layers that are not dense.
std::string widths_text(const SlotBudgetPlan& plan) {
  std::vector<std::int32_t> slots = plan.slots;
  std::erase(slots, 0);
  if (slots.empty()) return "none";
  const auto [least, most] = std::minmax_element(slots.begin(), slots.end());
  const std::int32_t live = count_live(plan.topology);
  return fmt::format("{} to {}", *least / live, *most / live);
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
  const SlotBudgetPoint& fewest = plan.curve.front();
  const double more = plan.curve.back().max_load_sum > 0.0
                          ? 100.0 * (fewest.max_load_sum / plan.curve.back().max_load_sum - 1.0)
                          : 0.0;
  return fmt::format(
      "budget     {} of {} slots used, {} per rank and layer; the fewest, {}, would load the fullest "
      "ranks by {:.1f} % more\n",
      plan.total_slots, budget, widths_text(plan), fewest.total_slots, more);
}

}  // namespace trimtab
