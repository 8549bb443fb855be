// SPDX-License-Identifier: Apache-2.0
#include "report/sweep_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

namespace trimtab {
namespace {

nlohmann::ordered_json entry(const SweepFigure& figure) {
  return {{"mean", figure.mean}, {"worst", figure.worst}};
}

std::string cell(const SweepFigure& figure) {
  return fmt::format("{:.4f} [{:.4f}]", figure.mean, figure.worst);
}

}  // namespace

nlohmann::ordered_json sweep_document(std::span<const SlotSweepPoint> points, std::int32_t num_experts,
                                      std::size_t num_scenarios) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const SlotSweepPoint& point : points) {
    entries.push_back({{"slots", point.slots},
                       {"redundant", point.redundant},
                       {"even", entry(point.even)},
                       {"even_split", entry(point.even_split)},
                       {"exact", entry(point.exact)},
                       {"exact_even", entry(point.exact_even)}});
  }
  return {{"schema", "trimtab.sweep/1"},
          {"experts", num_experts},
          {"scenarios", num_scenarios},
          {"points", std::move(entries)}};
}

std::string sweep_text(std::span<const SlotSweepPoint> points, std::size_t num_scenarios) {
  Table table;
  for (const char* header : {"slots", "redundant", "even shares", "exact split of that plan",
                             "planned for the exact split", "even shares of that plan"}) {
    table.add_column(header);
  }
  for (const SlotSweepPoint& point : points) {
    table.add_row({fmt::format("{}", point.slots), fmt::format("{}", point.redundant), cell(point.even),
                   cell(point.even_split), cell(point.exact), cell(point.exact_even)});
  }
  return table.to_string() +
         fmt::format("imbalance: max / mean rank load, mean over layers [worst layer]{}\n",
                     num_scenarios > 1
                         ? fmt::format(", of the worst of {} load scenarios; one plan for all", num_scenarios)
                         : "");
}

}  // namespace trimtab
