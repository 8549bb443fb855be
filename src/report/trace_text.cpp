// SPDX-License-Identifier: Apache-2.0
#include "report/table.hpp"
#include "report/trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace trimtab {
namespace {

constexpr std::size_t max_label = 20;
constexpr std::size_t max_width = 100;

std::string cut(const std::string& name) {
  return name.size() <= max_label ? name : name.substr(0, max_label - 2) + "..";
}

/// The domains; numbered where they would be the same.
std::vector<std::string> labels_of(const TraceReport& report) {
  std::vector<std::string> labels;
  for (const TraceSummary& trace : report.traces) labels.push_back(cut(trace.domain));
  if (std::set(labels.begin(), labels.end()).size() == labels.size()) return labels;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    labels[t] = cut(fmt::format("{}:{}", t + 1, report.traces[t].domain));
  }
  return labels;
}

std::string headline(const TraceReport& report) {
  const LoadReport& first = report.loads.front();
  const std::size_t num_layers = first.layers.size() + first.dense_layers.size();
  return fmt::format("{} trace{} of {}: {} layers ({} dense), {} experts in {} group{}, top-{}\n",
                     report.traces.size(), report.traces.size() == 1 ? "" : "s", report.model, num_layers,
                     first.dense_layers.size(), first.num_experts, report.num_groups,
                     report.num_groups == 1 ? "" : "s", report.top_k) +
         fmt::format("{} ranks with {} slots under {}\n", report.num_ranks, report.num_slots,
                     report.placement.empty() ? "the identity placement" : report.placement);
}

double imbalance_of(const LayerLoad& layer) { return layer.ranks->max_over_mean(); }

double mean_imbalance_of(const LoadReport& report) {
  double sum = 0.0;
  for (const LayerLoad& layer : report.layers) sum += imbalance_of(layer);
  return sum / static_cast<double>(report.layers.size());
}

std::string summary_text(const TraceReport& report, const std::vector<std::string>& labels) {
  Table table;
  table.add_column("trace", Table::Align::left);
  for (const char* header :
       {"tokens", "prefill", "decode", "requests", "imbalance", "worst", "layer", "noise floor"}) {
    table.add_column(header);
  }
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const TraceSummary& trace = report.traces[t];
    const LayerLoad& worst = *std::ranges::max_element(report.loads[t].layers, {}, imbalance_of);
    table.add_row({labels[t], fmt::format("{}", trace.num_tokens), fmt::format("{}", trace.num_prefill),
                   fmt::format("{}", trace.num_tokens - trace.num_prefill),
                   fmt::format("{}", trace.num_requests),
                   fmt::format("{:.4f}", mean_imbalance_of(report.loads[t])),
                   fmt::format("{:.4f}", imbalance_of(worst)), fmt::format("{}", worst.layer.value()),
                   fmt::format("{:.4f}", report.noise_floors[t])});
  }
  return table.to_string();
}

/// A table with a column for each trace, in as many pieces as the width needs.
class ByTrace {
 public:
  ByTrace(std::string corner, std::vector<std::string> columns)
      : corner_(std::move(corner)), columns_(std::move(columns)) {}

  using Value = std::function<double(std::size_t trace)>;
  void add_row(std::string name, const Value& value, int digits) {
    std::vector<std::string> row{std::move(name)};
    for (std::size_t t = 0; t < columns_.size(); ++t) row.push_back(fmt::format("{:.{}f}", value(t), digits));
    rows_.push_back(std::move(row));
  }
  void add_rule() { rows_.emplace_back(); }

  [[nodiscard]] std::string to_string() const {
    std::string text;
    for (std::size_t first = 0; first < columns_.size();) {
      const std::size_t last = first + num_fitting(first);
      text += piece(first, last);
      first = last;
    }
    return text;
  }

 private:
  [[nodiscard]] std::size_t num_fitting(std::size_t first) const {
    std::size_t width = corner_.size();
    for (const auto& row : rows_) width = std::max(width, row.empty() ? 0 : row[0].size());
    std::size_t count = 0;
    while (first + count < columns_.size()) {
      width += 2 + std::max<std::size_t>(columns_[first + count].size(), 6);
      if (count > 0 && width > max_width) break;
      ++count;
    }
    return count;
  }

  [[nodiscard]] std::string piece(std::size_t first, std::size_t last) const {
    Table table;
    table.add_column(corner_, Table::Align::left);
    for (std::size_t t = first; t < last; ++t) table.add_column(columns_[t]);
    for (const auto& row : rows_) {
      if (row.empty()) {
        table.add_rule();
        continue;
      }
      std::vector<std::string> cells{row[0]};
      for (std::size_t t = first; t < last; ++t) cells.push_back(row[t + 1]);
      table.add_row(std::move(cells));
    }
    return table.to_string();
  }

  std::string corner_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< The name first; an empty row is a rule.
};

/// Positions in the lists of layers: all in order, or the worst of any trace first.
std::vector<std::size_t> layers_to_list(const TraceReport& report, std::optional<std::size_t> top) {
  std::vector<std::size_t> order(report.loads.front().layers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (!top) return order;
  const auto worst = [&](std::size_t i) {
    double imbalance = 0.0;
    for (const LoadReport& loads : report.loads) {
      imbalance = std::max(imbalance, imbalance_of(loads.layers[i]));
    }
    return imbalance;
  };
  std::ranges::stable_sort(order, std::greater<>(), worst);
  order.resize(std::min(*top, order.size()));
  return order;
}

std::string layers_text(const TraceReport& report, const std::vector<std::string>& labels,
                        std::optional<std::size_t> top) {
  ByTrace table("layer", labels);
  for (std::size_t i : layers_to_list(report, top)) {
    table.add_row(
        fmt::format("{}", report.loads.front().layers[i].layer.value()),
        [&](std::size_t t) { return imbalance_of(report.loads[t].layers[i]); }, 4);
  }
  table.add_rule();
  table.add_row(
      "average", [&](std::size_t t) { return mean_imbalance_of(report.loads[t]); }, 4);
  return "\nimbalance by layer\n" + table.to_string();
}

std::string matrix_text(const TraceMatrix& matrix, const char* corner, const std::vector<std::string>& labels,
                        int digits) {
  ByTrace table(corner, labels);
  for (std::size_t a = 0; a < labels.size(); ++a) {
    table.add_row(
        labels[a], [&](std::size_t b) { return matrix[a][b]; }, digits);
  }
  return table.to_string();
}

std::string overlap_text(const TraceReport& report, const std::vector<std::string>& labels) {
  const std::int32_t num_experts = report.loads.front().num_experts;
  const std::int32_t hot = num_hot_experts(num_experts);
  return fmt::format("\nshare of the {} hottest experts in common, mean over layers (chance: {:.2f})\n", hot,
                     static_cast<double>(hot) / num_experts) +
         matrix_text(report.hot_overlap, "trace", labels, 2);
}

/// Means of the diagonal and of what is beside it.
std::pair<double, double> own_and_others(const TraceMatrix& matrix) {
  double own = 0.0;
  double others = 0.0;
  const std::size_t n = matrix.size();
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) (a == b ? own : others) += matrix[a][b];
  }
  return {own / static_cast<double>(n), n == 1 ? own : others / static_cast<double>(n * (n - 1))};
}

std::string cross_text(const TraceReport& report, const std::vector<std::string>& labels) {
  std::string text =
      fmt::format("\nimbalance under a plan of {} slots made for one trace and serving another\n",
                  report.num_slots) +
      matrix_text(*report.cross_imbalance, "made for", labels, 4);
  if (labels.size() == 1) return text;
  const auto [own, others] = own_and_others(*report.cross_imbalance);
  return text + fmt::format("on average {:.4f} under its own plan, {:.4f} under another's\n", own, others);
}

}  // namespace

std::string trace_text(const TraceReport& report, std::optional<std::size_t> top) {
  const std::vector<std::string> labels = labels_of(report);
  std::string text = headline(report) + summary_text(report, labels);
  if (labels.size() == 1) {
    text += '\n' + load_text(report.loads.front(), top);
  } else {
    text += layers_text(report, labels, top) + overlap_text(report, labels);
  }
  if (report.cross_imbalance) text += cross_text(report, labels);
  return text;
}

}  // namespace trimtab
