// SPDX-License-Identifier: Apache-2.0
#include "report/load_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace trimtab {
namespace {

LayerLoad inspect_layer(const LoadMatrix& loads, LayerId layer, const std::optional<Spread>& spread) {
  const auto row = loads.layer(layer);
  const auto hottest = std::max_element(row.begin(), row.end());
  LayerLoad result{.layer = layer,
                   .total = loads.total(layer),
                   .mean = loads.total(layer) / loads.num_experts(),
                   .max = *hottest,
                   .hottest = ExpertId{static_cast<std::int32_t>(hottest - row.begin())},
                   .ranks = {}};
  if (spread) {
    const auto rank_loads = compute_rank_loads(row, spread->placement.layer(layer), spread->topology);
    result.ranks = compute_imbalance(rank_loads, spread->topology);
  }
  return result;
}

/// What the layers are ranked by: the imbalance of the ranks, or that of the experts when ranks are not
/// known.
double badness(const LayerLoad& layer) {
  return layer.ranks ? layer.ranks->max_over_mean() : layer.max / layer.mean;
}

/// The layers to list: all in order, or the worst first.
std::vector<LayerLoad> selected(const LoadReport& report, std::optional<std::size_t> top) {
  std::vector<LayerLoad> layers = report.layers;
  if (!top) return layers;
  std::ranges::stable_sort(layers, std::greater<>(), badness);
  layers.resize(std::min(*top, layers.size()));
  return layers;
}

double mean_of(const std::vector<LayerLoad>& layers, const std::function<double(const LayerLoad&)>& value) {
  double sum = 0.0;
  for (const LayerLoad& layer : layers) sum += value(layer);
  return layers.empty() ? 0.0 : sum / static_cast<double>(layers.size());
}

nlohmann::ordered_json imbalance_keys(const Imbalance& ranks) {
  return {{"imbalance", ranks.max_over_mean()},
          {"balancedness", ranks.balancedness()},
          {"excess", ranks.excess()}};
}

nlohmann::ordered_json layer_entry(const LayerLoad& layer) {
  nlohmann::ordered_json entry = {{"layer", layer.layer.value()},
                                  {"total", layer.total},
                                  {"mean", layer.mean},
                                  {"max", layer.max},
                                  {"max_over_mean", layer.max / layer.mean},
                                  {"hottest_expert", layer.hottest.value()}};
  if (layer.ranks) entry.update(imbalance_keys(*layer.ranks));
  return entry;
}

bool has_ranks(const LoadReport& report) { return !report.layers.empty() && report.layers.front().ranks; }

nlohmann::ordered_json summary_entry(const LoadReport& report) {
  const auto& layers = report.layers;
  nlohmann::ordered_json summary = {{"layers", layers.size()}};
  if (layers.empty()) return summary;
  const LayerLoad& worst = *std::ranges::max_element(layers, {}, badness);
  summary["worst_layer"] = worst.layer.value();
  summary["max_over_mean_mean"] = mean_of(layers, [](const LayerLoad& l) { return l.max / l.mean; });
  if (!has_ranks(report)) return summary;
  summary["imbalance_mean"] = mean_of(layers, [](const LayerLoad& l) { return l.ranks->max_over_mean(); });
  summary["balancedness_mean"] = mean_of(layers, [](const LayerLoad& l) { return l.ranks->balancedness(); });
  summary["excess_mean"] = mean_of(layers, [](const LayerLoad& l) { return l.ranks->excess(); });
  summary["imbalance_worst"] = worst.ranks->max_over_mean();
  return summary;
}

std::vector<std::string> cells(std::string name, const LayerLoad& layer) {
  std::vector<std::string> row{std::move(name),
                               fmt::format("{:.0f}", layer.total),
                               fmt::format("{:.1f}", layer.mean),
                               fmt::format("{:.0f}", layer.max),
                               fmt::format("{:.2f}", layer.max / layer.mean),
                               fmt::format("{}", layer.hottest.value())};
  if (layer.ranks) {
    row.push_back(fmt::format("{:.4f}", layer.ranks->max_over_mean()));
    row.push_back(fmt::format("{:.4f}", layer.ranks->balancedness()));
    row.push_back(fmt::format("{:.4f}", layer.ranks->excess()));
  }
  return row;
}

std::vector<std::string> average_cells(const LoadReport& report) {
  const auto mean = [&](const char* format, const std::function<double(const LayerLoad&)>& value) {
    return fmt::format(fmt::runtime(format), mean_of(report.layers, value));
  };
  std::vector<std::string> row{"average",
                               mean("{:.0f}", [](const LayerLoad& l) { return l.total; }),
                               mean("{:.1f}", [](const LayerLoad& l) { return l.mean; }),
                               mean("{:.0f}", [](const LayerLoad& l) { return l.max; }),
                               mean("{:.2f}", [](const LayerLoad& l) { return l.max / l.mean; }),
                               "-"};
  if (has_ranks(report)) {
    row.push_back(mean("{:.4f}", [](const LayerLoad& l) { return l.ranks->max_over_mean(); }));
    row.push_back(mean("{:.4f}", [](const LayerLoad& l) { return l.ranks->balancedness(); }));
    row.push_back(mean("{:.4f}", [](const LayerLoad& l) { return l.ranks->excess(); }));
  }
  return row;
}

Table make_table(bool with_ranks) {
  Table table;
  table.add_column("layer", Table::Align::left);
  for (const char* header : {"assignments", "per expert", "max", "max/mean", "hottest expert"}) {
    table.add_column(header);
  }
  if (!with_ranks) return table;
  for (const char* header : {"imbalance", "balancedness", "excess"}) table.add_column(header);
  return table;
}

constexpr const char* legend =
    "rank loads: imbalance = max/mean, balancedness = mean/max, excess = (max-mean)/mean\n";

}  // namespace

LoadReport inspect_loads(const LoadMatrix& loads, std::int32_t num_steps,
                         const std::optional<Spread>& spread) {
  LoadReport report{
      .num_experts = loads.num_experts(), .num_steps = num_steps, .dense_layers = {}, .layers = {}};
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) {
      report.dense_layers.push_back(layer.value());
    } else {
      report.layers.push_back(inspect_layer(loads, layer, spread));
    }
  }
  return report;
}

nlohmann::ordered_json load_document(const LoadReport& report, std::optional<std::size_t> top) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerLoad& layer : selected(report, top)) layers.push_back(layer_entry(layer));
  return {{"schema", "trimtab.inspect/1"},       {"kind", "loads"},
          {"experts", report.num_experts},       {"steps", report.num_steps},
          {"dense_layers", report.dense_layers}, {"layers", std::move(layers)},
          {"summary", summary_entry(report)}};
}

std::string load_text(const LoadReport& report, std::optional<std::size_t> top) {
  Table table = make_table(has_ranks(report));
  for (const LayerLoad& layer : selected(report, top)) {
    table.add_row(cells(fmt::format("{}", layer.layer.value()), layer));
  }
  if (report.layers.empty()) return "no layer carries load\n";
  table.add_rule();
  table.add_row(average_cells(report));
  const LayerLoad& worst = *std::ranges::max_element(report.layers, {}, badness);
  table.add_row(cells(fmt::format("worst ({})", worst.layer.value()), worst));
  return table.to_string() + (has_ranks(report) ? legend : "");
}

}  // namespace trimtab
