// SPDX-License-Identifier: Apache-2.0
#include "report/split_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

namespace trimtab {
namespace {

/// Those that carry load.
std::vector<LayerSplit> loaded(const SplitReport& report) {
  std::vector<LayerSplit> layers;
  std::ranges::copy_if(report.plan.layers, std::back_inserter(layers), std::logical_not<>(),
                       &LayerSplit::is_dense);
  return layers;
}

/// Over the layers that carry load; there is one.
struct Figures {
  double mean = 0.0;
  double worst = 0.0;
};

Figures figures_of(const std::vector<LayerSplit>& layers, double LayerSplit::*value) {
  Figures figures;
  for (const LayerSplit& layer : layers) {
    figures.mean += layer.*value / static_cast<double>(layers.size());
    figures.worst = std::max(figures.worst, layer.*value);
  }
  return figures;
}

/// The layers to list: all in order, or those first that the best split leaves worst.
std::vector<LayerSplit> selected(const SplitReport& report, std::optional<std::size_t> top) {
  std::vector<LayerSplit> layers = loaded(report);
  if (!top) return layers;
  std::ranges::stable_sort(layers, std::greater<>(), &LayerSplit::exact);
  layers.resize(std::min(*top, layers.size()));
  return layers;
}

template <class Id>
std::vector<std::int32_t> numbers(const std::vector<Id>& ids) {
  std::vector<std::int32_t> values;
  values.reserve(ids.size());
  for (Id id : ids) values.push_back(id.value());
  return values;
}

/// Of the split in whole assignments, as far as the loads are whole.
double whole_imbalance(const LayerSplit& layer) {
  return layer.optimum > 0.0 ? layer.exact * layer.max_pressure / layer.optimum : 1.0;
}

nlohmann::ordered_json layer_entry(const LayerSplit& layer, double noise_floor) {
  return {{"layer", layer.layer.value()},
          {"even", layer.even},
          {"exact", layer.exact},
          {"noise_floor", noise_floor},
          {"waterfill", layer.waterfilled},
          {"whole", whole_imbalance(layer)},
          {"given_up", layer.num_given_up},
          {"tight_ranks", numbers(layer.tight_ranks)},
          {"tight_experts", numbers(layer.tight_experts)}};
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
  constexpr double rounding = 1e-9;
  if (layer.exact <= 1.0 + rounding) return "the mean";
  return fmt::format("rank{}: expert{}", few(layer.tight_ranks), few(layer.tight_experts));
}

std::int64_t count_given_up(const std::vector<LayerSplit>& layers) {
  std::int64_t sum = 0;
  for (const LayerSplit& layer : layers) sum += layer.num_given_up;
  return sum;
}

/// What the fewest assignments of a replica cost, where they cost something.
std::string given_up_text(const std::vector<LayerSplit>& layers) {
  const std::int64_t given_up = count_given_up(layers);
  if (given_up == 0) return "";
  double mean = 0.0;
  for (const LayerSplit& layer : layers) mean += whole_imbalance(layer) / static_cast<double>(layers.size());
  return fmt::format("{} replicas are given up for --min-assignments: {:.4f} on average is left of exact\n",
                     given_up, mean);
}

std::vector<std::string> cells(std::string name, double even, double exact, double waterfill,
                               std::string held_by) {
  return {std::move(name), fmt::format("{:.4f}", even), fmt::format("{:.4f}", exact),
          fmt::format("{:.4f}", waterfill), std::move(held_by)};
}

}  // namespace

nlohmann::ordered_json split_document(const SplitReport& report, std::optional<std::size_t> top,
                                      bool with_shares) {
  nlohmann::ordered_json document = {{"schema", "trimtab.split/1"},
                                     {"batch_assignments", report.batch_assignments},
                                     {"layers", nlohmann::ordered_json::array()},
                                     {"summary", {{"layers", 0}}}};
  for (const LayerSplit& layer : selected(report, top)) {
    nlohmann::ordered_json entry = layer_entry(layer, report.noise_floor);
    if (with_shares) entry["assignments"] = report.plan.split.layer(layer.layer);
    document["layers"].push_back(std::move(entry));
  }
  const std::vector<LayerSplit> layers = loaded(report);
  if (layers.empty()) return document;
  const Figures even = figures_of(layers, &LayerSplit::even);
  const Figures exact = figures_of(layers, &LayerSplit::exact);
  const Figures waterfilled = figures_of(layers, &LayerSplit::waterfilled);
  document["summary"] = {{"layers", layers.size()},
                         {"even_mean", even.mean},
                         {"even_worst", even.worst},
                         {"exact_mean", exact.mean},
                         {"exact_worst", exact.worst},
                         {"given_up", count_given_up(layers)},
                         {"noise_floor_mean", report.noise_floor},
                         {"waterfill_mean", waterfilled.mean},
                         {"waterfill_worst", waterfilled.worst},
                         {"solve_us_median", report.solve_us_median}};
  return document;
}

std::string split_text(const SplitReport& report, std::optional<std::size_t> top) {
  const std::vector<LayerSplit> layers = loaded(report);
  if (layers.empty()) return "no layer carries load\n";
  Table table;
  table.add_column("layer", Table::Align::left);
  for (const char* header : {"even", "exact", "waterfill"}) table.add_column(header);
  table.add_column("exact is held up by", Table::Align::left);
  for (const LayerSplit& layer : selected(report, top)) {
    table.add_row(cells(fmt::format("{}", layer.layer.value()), layer.even, layer.exact, layer.waterfilled,
                        holder(layer)));
  }
  const Figures even = figures_of(layers, &LayerSplit::even);
  const Figures exact = figures_of(layers, &LayerSplit::exact);
  const Figures waterfilled = figures_of(layers, &LayerSplit::waterfilled);
  table.add_rule();
  table.add_row(cells("average", even.mean, exact.mean, waterfilled.mean, ""));
  table.add_row(cells("worst", even.worst, exact.worst, waterfilled.worst, ""));
  return table.to_string() + given_up_text(layers) +
         fmt::format(
             "imbalance: max / mean rank load. A batch of {} assignments shows {:.4f} by chance alone.\n"
             "solved in {:.1f} us per layer (median)\n",
             report.batch_assignments, report.noise_floor, report.solve_us_median);
}

}  // namespace trimtab
