// SPDX-License-Identifier: Apache-2.0
#include "report/delta_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

nlohmann::ordered_json curve_entry(const LayerDelta& layer) {
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  for (const CurvePoint& point : layer.curve) {
    curve.push_back({{"moves", point.moves}, {"imbalance", point.imbalance}});
  }
  return curve;
}

nlohmann::ordered_json bytes_of(std::int64_t experts, std::optional<std::uint64_t> expert_bytes) {
  if (!expert_bytes) return nullptr;
  return static_cast<std::uint64_t>(experts) * *expert_bytes;
}

/// What a layer comes to with at most `moves` moves; a layer that needs more makes those it needs.
const CurvePoint& point_within(const LayerDelta& layer, std::int32_t moves) {
  const CurvePoint* best = &layer.curve.front();
  for (const CurvePoint& point : layer.curve) {
    if (point.moves <= moves) best = &point;
  }
  return *best;
}

std::int32_t most_moves(const DeltaPlan& delta) {
  std::int32_t most = 0;
  for (const LayerDelta& layer : delta.layers) most = std::max(most, layer.curve.back().moves);
  return most;
}

std::vector<std::string> curve_row(const DeltaPlan& delta, std::int32_t moves) {
  std::int64_t total = 0;
  double sum = 0.0;
  double worst = 1.0;
  int layers = 0;
  for (std::size_t i = 0; i < delta.layers.size(); ++i) {
    const CurvePoint& point = point_within(delta.layers[i], moves);
    total += point.moves;
    if (delta.plan.layers[i].is_dense) continue;
    sum += point.imbalance;
    worst = std::max(worst, point.imbalance);
    ++layers;
  }
  return {fmt::format("{}", moves), fmt::format("{}", total),
          fmt::format("{:.4f}", layers > 0 ? sum / layers : 1.0), fmt::format("{:.4f}", worst)};
}

}  // namespace

DeltaSummary summarize(const DeltaPlan& delta) {
  DeltaSummary sum{
      .imbalance_from_mean = 0.0, .imbalance_mean = 0.0, .imbalance_full_mean = 0.0, .counts = {}};
  for (std::size_t i = 0; i < delta.layers.size(); ++i) {
    const LayerDelta& layer = delta.layers[i];
    sum.counts += layer.counts;
    sum.moves_bound += layer.moves_bound;
    if (delta.plan.layers[i].is_dense) continue;
    ++sum.layers;
    sum.imbalance_from_mean += layer.imbalance_from;
    sum.imbalance_mean += delta.plan.layers[i].imbalance;
    sum.imbalance_full_mean += layer.imbalance_full;
  }
  for (double* mean : {&sum.imbalance_from_mean, &sum.imbalance_mean, &sum.imbalance_full_mean}) {
    *mean = sum.layers > 0 ? *mean / sum.layers : 1.0;
  }
  const Placement& placement = delta.plan.placement;
  sum.slots = std::int64_t{placement.num_layers()} * placement.num_slots();
  return sum;
}

void add_delta(nlohmann::ordered_json& document, const DeltaPlan& delta, const DeltaSummary& summary,
               std::optional<std::uint64_t> expert_bytes, bool with_curve) {
  for (auto& entry : document["layers"]) {
    const LayerDelta& layer = delta.layers[entry["layer"].get<std::size_t>()];
    entry["imbalance_from"] = layer.imbalance_from;
    entry["imbalance_full"] = layer.imbalance_full;
    entry["moves"] = layer.counts.moves;
    entry["moves_required"] = layer.required_moves;
    entry["moves_bound"] = layer.moves_bound;
    entry["local_copies"] = layer.counts.local_copies;
    if (with_curve) entry["curve"] = curve_entry(layer);
  }
  auto& sum = document["summary"];
  sum["imbalance_from_mean"] = summary.imbalance_from_mean;
  sum["imbalance_full_mean"] = summary.imbalance_full_mean;
  sum["moves"] = summary.counts.moves;
  sum["moves_bound"] = summary.moves_bound;
  sum["local_copies"] = summary.counts.local_copies;
  sum["bytes_intra_node"] = bytes_of(summary.counts.intra_node, expert_bytes);
  sum["bytes_inter_node"] = bytes_of(summary.counts.inter_node, expert_bytes);
  sum["bytes_from_source"] = bytes_of(summary.counts.from_source, expert_bytes);
}

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(units)) {
    bytes /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string delta_text(const DeltaPlan& delta, const DeltaSummary& summary,
                       std::optional<std::uint64_t> expert_bytes, double plan_ms) {
  const ChangeCounts& counts = summary.counts;
  std::string text = fmt::format(
      "imbalance  {:.4f} -> {:.4f} (max / mean rank load, mean over {} layers); full re-plan {:.4f}\n"
      "moves      {} of {} slots ({:.1f} %), at least {} for this balance\n"
      "from       {} of the same node, {} of another node",
      summary.imbalance_from_mean, summary.imbalance_mean, summary.layers, summary.imbalance_full_mean,
      counts.moves, summary.slots,
      100.0 * static_cast<double>(counts.moves) / static_cast<double>(summary.slots), summary.moves_bound,
      counts.intra_node, counts.inter_node);
  if (counts.from_source > 0) text += fmt::format(", {} that no live rank holds", counts.from_source);
  if (expert_bytes) {
    const auto bytes = [&](std::int64_t n) {
      return bytes_text(static_cast<double>(n) * static_cast<double>(*expert_bytes));
    };
    text += fmt::format(" ({} and {})", bytes(counts.intra_node), bytes(counts.inter_node));
  }
  text += fmt::format("\nlocality   {}\nplanned in {:.1f} ms\n", to_string(delta.plan.locality), plan_ms);
  return text;
}

std::string curve_text(const DeltaPlan& delta) {
  Table table;
  for (const char* header : {"moves per layer", "moves", "imbalance", "worst"}) table.add_column(header);
  const std::int32_t most = most_moves(delta);
  table.add_row(curve_row(delta, 0));
  for (std::int32_t moves = 1; moves < most; moves *= 2) table.add_row(curve_row(delta, moves));
  if (most > 0) table.add_row(curve_row(delta, most));
  return table.to_string();
}

}  // namespace trimtab
