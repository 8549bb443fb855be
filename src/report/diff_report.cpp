// SPDX-License-Identifier: Apache-2.0
#include "report/diff_report.hpp"

#include "report/delta_report.hpp"
#include "report/table.hpp"

#include <trimtab/core/imbalance.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

nlohmann::ordered_json expert_or_null(ExpertId expert) {
  if (expert == no_expert) return nullptr;
  return expert.value();
}

nlohmann::ordered_json change_entry(const SlotChange& change) {
  std::string kind(to_string(change.kind));
  std::replace(kind.begin(), kind.end(), ' ', '_');
  return {{"slot", change.slot.value()},
          {"from", expert_or_null(change.from)},
          {"to", expert_or_null(change.to)},
          {"kind", kind},
          {"is_move", change.is_move}};
}

void add_counts(nlohmann::ordered_json& entry, const ChangeCounts& counts) {
  entry["moves"] = counts.moves;
  entry["intra_node"] = counts.intra_node;
  entry["inter_node"] = counts.inter_node;
  entry["from_source"] = counts.from_source;
  entry["local_copies"] = counts.local_copies;
  entry["vacated"] = counts.vacated;
}

nlohmann::ordered_json layer_entry(const DiffReport& report, std::size_t i) {
  const LayerDiff& layer = report.layers[i];
  nlohmann::ordered_json entry = {{"layer", layer.layer.value()}};
  add_counts(entry, layer.counts);
  if (!report.imbalance_before.empty() && !report.is_dense[i]) {
    entry["imbalance_before"] = report.imbalance_before[i];
    entry["imbalance_after"] = report.imbalance_after[i];
  }
  entry["changes"] = nlohmann::ordered_json::array();
  for (const SlotChange& change : layer.changes) entry["changes"].push_back(change_entry(change));
  return entry;
}

/// Over the layers that are not dense; 1 when there are none.
double mean_of(const std::vector<double>& values, const std::vector<bool>& is_dense) {
  double sum = 0.0;
  int count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_dense[i]) continue;
    sum += values[i];
    ++count;
  }
  return count > 0 ? sum / count : 1.0;
}

std::string expert_text(ExpertId expert) {
  return expert == no_expert ? "vacant" : fmt::format("{}", expert.value());
}

std::string changes_text(const LayerDiff& layer, std::size_t limit) {
  std::string text = fmt::format("layer {}\n", layer.layer.value());
  for (std::size_t i = 0; i < std::min(limit, layer.changes.size()); ++i) {
    const SlotChange& change = layer.changes[i];
    text += fmt::format("  slot {}: {} -> {} ({})\n", change.slot.value(), expert_text(change.from),
                        expert_text(change.to), to_string(change.kind));
  }
  if (layer.changes.size() > limit) text += fmt::format("  and {} more\n", layer.changes.size() - limit);
  return text;
}

std::vector<std::string> counts_row(std::string name, const ChangeCounts& counts) {
  std::vector<std::string> row{std::move(name)};
  for (std::int64_t value : {counts.moves, counts.intra_node, counts.inter_node, counts.from_source,
                             counts.local_copies, counts.vacated}) {
    row.push_back(fmt::format("{}", value));
  }
  return row;
}

class DiffTable {
 public:
  explicit DiffTable(const DiffReport& report) : report_(report) {
    table_.add_column("layer", Table::Align::left);
    for (const char* header :
         {"moves", "intra node", "inter node", "from source", "local copies", "vacated"}) {
      table_.add_column(header);
    }
    if (!has_loads()) return;
    table_.add_column("imbalance before");
    table_.add_column("after");
  }

  std::string to_string() {
    for (std::size_t i = 0; i < report_.layers.size(); ++i) {
      const LayerDiff& layer = report_.layers[i];
      if (layer.changes.empty()) continue;
      auto row = counts_row(fmt::format("{}", layer.layer.value()), layer.counts);
      if (has_loads()) {
        add_imbalance(row, !report_.is_dense[i], report_.imbalance_before[i], report_.imbalance_after[i]);
      }
      table_.add_row(std::move(row));
    }
    table_.add_rule();
    auto row = counts_row("total", total_counts(report_.layers));
    if (has_loads()) {
      add_imbalance(row, true, mean_of(report_.imbalance_before, report_.is_dense),
                    mean_of(report_.imbalance_after, report_.is_dense));
    }
    table_.add_row(std::move(row));
    return table_.to_string();
  }

 private:
  [[nodiscard]] bool has_loads() const { return !report_.imbalance_before.empty(); }

  static void add_imbalance(std::vector<std::string>& row, bool is_known, double before, double after) {
    row.push_back(is_known ? fmt::format("{:.4f}", before) : "-");
    row.push_back(is_known ? fmt::format("{:.4f}", after) : "-");
  }

  const DiffReport& report_;
  Table table_;
};

double imbalance_of(const LoadMatrix& loads, const Placement& placement, LayerId layer,
                    const Topology& topology) {
  const auto rank_loads = compute_rank_loads(loads.layer(layer), placement.layer(layer), topology);
  return compute_imbalance(rank_loads, topology).max_over_mean();
}

}  // namespace

void add_imbalance(DiffReport& report, const LoadMatrix& loads, const Placement& before,
                   const Topology& old_topology, const Placement& after, const Topology& new_topology) {
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    report.imbalance_before.push_back(imbalance_of(loads, before, layer, old_topology));
    report.imbalance_after.push_back(imbalance_of(loads, after, layer, new_topology));
    report.is_dense.push_back(loads.is_dense(layer));
  }
}

nlohmann::ordered_json diff_document(const DiffReport& report, std::optional<std::uint64_t> expert_bytes) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < report.layers.size(); ++i) layers.push_back(layer_entry(report, i));
  const ChangeCounts total = total_counts(report.layers);
  nlohmann::ordered_json summary;
  summary["layers"] = report.layers.size();
  add_counts(summary, total);
  const auto bytes = [&](std::int64_t experts) -> nlohmann::ordered_json {
    if (!expert_bytes) return nullptr;
    return static_cast<std::uint64_t>(experts) * *expert_bytes;
  };
  summary["bytes_intra_node"] = bytes(total.intra_node);
  summary["bytes_inter_node"] = bytes(total.inter_node);
  summary["bytes_from_source"] = bytes(total.from_source);
  summary["bytes_copied"] = bytes(total.local_copies);
  if (!report.imbalance_before.empty()) {
    summary["imbalance_before_mean"] = mean_of(report.imbalance_before, report.is_dense);
    summary["imbalance_after_mean"] = mean_of(report.imbalance_after, report.is_dense);
  }
  return {{"schema", "trimtab.diff/1"}, {"layers", std::move(layers)}, {"summary", std::move(summary)}};
}

std::string diff_text(const DiffReport& report, std::optional<std::uint64_t> expert_bytes, bool verbose,
                      std::size_t limit) {
  std::string text = DiffTable(report).to_string();
  const ChangeCounts total = total_counts(report.layers);
  const auto slots = static_cast<double>(report.layers.size()) * report.slots;
  text += fmt::format("\n{} of {:.0f} slots move ({:.1f} %)\n", total.moves, slots,
                      100.0 * static_cast<double>(total.moves) / slots);
  if (expert_bytes) {
    const auto bytes = [&](std::int64_t n) {
      return bytes_text(static_cast<double>(n) * static_cast<double>(*expert_bytes));
    };
    text += fmt::format("{} inside nodes, {} between nodes, {} copied inside ranks\n",
                        bytes(total.intra_node), bytes(total.inter_node), bytes(total.local_copies));
  }
  for (const LayerDiff& layer : report.layers) {
    if (verbose && !layer.changes.empty()) text += changes_text(layer, limit);
  }
  return text;
}

}  // namespace trimtab
