// SPDX-License-Identifier: Apache-2.0
#include "report/split_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

namespace trimtab {
namespace {

using Value = double LayerSplit::*;

double mean_of(const SplitReport& report, Value value) {
  double sum = 0.0;
  for (const LayerSplit& layer : report.layers) sum += layer.*value;
  return report.layers.empty() ? 1.0 : sum / static_cast<double>(report.layers.size());
}

double worst_of(const SplitReport& report, Value value) {
  double worst = 1.0;
  for (const LayerSplit& layer : report.layers) worst = std::max(worst, layer.*value);
  return worst;
}

/// The layers to list: all in order, or those first that the best split leaves worst.
std::vector<LayerSplit> selected(const SplitReport& report, std::optional<std::size_t> top) {
  std::vector<LayerSplit> layers = report.layers;
  if (!top) return layers;
  std::ranges::stable_sort(layers, std::greater<>(), &LayerSplit::exact);
  layers.resize(std::min(*top, layers.size()));
  return layers;
}

template <class Id>
std::vector<std::int32_t> numbers(const std::vector<Id>& ids) {
  std::vector<std::int32_t> values;
  for (Id id : ids) values.push_back(id.value());
  return values;
}

nlohmann::ordered_json layer_entry(const LayerSplit& layer, double noise_floor) {
  nlohmann::ordered_json entry = {{"layer", layer.layer.value()},
                                  {"even", layer.even},
                                  {"exact", layer.exact},
                                  {"noise_floor", noise_floor},
                                  {"waterfill", layer.waterfill},
                                  {"tight_ranks", numbers(layer.tight_ranks)},
                                  {"tight_experts", numbers(layer.tight_experts)}};
  if (!layer.assignments.empty()) entry["assignments"] = layer.assignments;
  return entry;
}

/// "3 7 9 …": at most four.
template <class Id>
std::string few(const std::vector<Id>& ids) {
  constexpr std::size_t most = 4;
  std::string text;
  for (Id id : std::span(ids).first(std::min(most, ids.size()))) text += fmt::format(" {}", id.value());
  return ids.size() > most ? text + fmt::format(" and {} more", ids.size() - most) : text;
}

std::string holder(const LayerSplit& layer) {
  if (layer.tight_experts.empty()) return "the mean";
  return fmt::format("rank{}: expert{}", few(layer.tight_ranks), few(layer.tight_experts));
}

std::vector<std::string> cells(std::string name, double even, double exact, double waterfill,
                               std::string held_by) {
  return {std::move(name), fmt::format("{:.4f}", even), fmt::format("{:.4f}", exact),
          fmt::format("{:.4f}", waterfill), std::move(held_by)};
}

}  // namespace

nlohmann::ordered_json split_document(const SplitReport& report, std::optional<std::size_t> top) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerSplit& layer : selected(report, top)) {
    layers.push_back(layer_entry(layer, report.noise_floor));
  }
  return {{"schema", "trimtab.split/1"},
          {"batch_assignments", report.batch_assignments},
          {"layers", std::move(layers)},
          {"summary",
           {{"layers", report.layers.size()},
            {"even_mean", mean_of(report, &LayerSplit::even)},
            {"even_worst", worst_of(report, &LayerSplit::even)},
            {"exact_mean", mean_of(report, &LayerSplit::exact)},
            {"exact_worst", worst_of(report, &LayerSplit::exact)},
            {"noise_floor_mean", report.noise_floor},
            {"waterfill_mean", mean_of(report, &LayerSplit::waterfill)},
            {"waterfill_worst", worst_of(report, &LayerSplit::waterfill)},
            {"solve_us_median", report.solve_us_median}}}};
}

std::string split_text(const SplitReport& report, std::optional<std::size_t> top) {
  if (report.layers.empty()) return "no layer carries load\n";
  Table table;
  table.add_column("layer", Table::Align::left);
  for (const char* header : {"even", "exact", "waterfill"}) table.add_column(header);
  table.add_column("exact is held up by", Table::Align::left);
  for (const LayerSplit& layer : selected(report, top)) {
    table.add_row(cells(fmt::format("{}", layer.layer.value()), layer.even, layer.exact, layer.waterfill,
                        holder(layer)));
  }
  table.add_rule();
  table.add_row(cells("average", mean_of(report, &LayerSplit::even), mean_of(report, &LayerSplit::exact),
                      mean_of(report, &LayerSplit::waterfill), ""));
  table.add_row(cells("worst", worst_of(report, &LayerSplit::even), worst_of(report, &LayerSplit::exact),
                      worst_of(report, &LayerSplit::waterfill), ""));
  return table.to_string() +
         fmt::format(
             "imbalance = max / mean rank load; batches of {} assignments cannot be told from perfect below "
             "{:.4f}\nsolved in {:.1f} us per layer (median)\n",
             report.batch_assignments, report.noise_floor, report.solve_us_median);
}

}  // namespace trimtab
