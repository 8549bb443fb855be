// SPDX-License-Identifier: Apache-2.0
#include "report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

std::int32_t count_vacant(const Placement& placement, LayerId layer) {
  const auto slots = placement.layer(layer);
  return static_cast<std::int32_t>(std::count(slots.begin(), slots.end(), no_expert));
}

nlohmann::ordered_json layer_entry(const LayerReport& report) {
  nlohmann::ordered_json entry = {{"layer", report.layer.value()},
                                  {"imbalance_before", report.imbalance_before},
                                  {"imbalance", report.imbalance},
                                  {"bound", report.bound},
                                  {"gap", report.gap()},
                                  {"locality_spill", report.spill},
                                  {"duplicates_on_rank", report.duplicates_on_rank}};
  if (report.imbalance_exact) entry["imbalance_exact"] = *report.imbalance_exact;
  return entry;
}

std::string slots_text(const Placement& placement, const Topology& topology) {
  const std::int32_t ranks = topology.num_ranks();
  const std::int32_t fewest = topology.num_slots() / ranks;
  const bool is_even = topology.num_slots() % ranks == 0;
  return fmt::format("{} per layer for {} experts: {}{} on each of {} ranks, {} node{}",
                     placement.num_slots(), placement.num_experts(), fewest,
                     is_even ? "" : fmt::format(" or {}", fewest + 1), ranks, topology.num_nodes(),
                     topology.num_nodes() == 1 ? "" : "s");
}

std::string exact_text(const PlanSummary& summary) {
  if (!summary.exact_mean) return "";
  return fmt::format("exact      {:.4f}, worst {:.4f} (the best split, which is planned for)\n",
                     *summary.exact_mean, summary.exact_worst);
}

}  // namespace

PlanSummary summarize(const Plan& plan) {
  PlanSummary sum{
      .imbalance_before_mean = 0.0, .imbalance_mean = 0.0, .imbalance_worst = 0.0, .bound_mean = 0.0};
  for (const LayerReport& report : plan.layers) {
    if (report.is_dense) continue;
    ++sum.layers;
    sum.imbalance_before_mean += report.imbalance_before;
    sum.imbalance_mean += report.imbalance;
    if (report.imbalance_exact) {
      sum.exact_mean = sum.exact_mean.value_or(0.0) + *report.imbalance_exact;
      sum.exact_worst = std::max(sum.exact_worst, *report.imbalance_exact);
    }
    sum.bound_mean += report.bound;
    sum.gap_mean += report.gap();
    sum.gap_worst = std::max(sum.gap_worst, report.gap());
    sum.spill_mean += report.spill;
    sum.duplicates_on_rank += report.duplicates_on_rank;
    sum.vacant_slots += count_vacant(plan.placement, report.layer);
    if (report.imbalance > sum.imbalance_worst) {
      sum.imbalance_worst = report.imbalance;
      sum.worst_layer = report.layer;
    }
  }
  if (sum.layers == 0) return {};
  sum.imbalance_before_mean /= sum.layers;
  sum.imbalance_mean /= sum.layers;
  if (sum.exact_mean) *sum.exact_mean /= sum.layers;
  sum.bound_mean /= sum.layers;
  sum.gap_mean /= sum.layers;
  sum.spill_mean /= sum.layers;
  return sum;
}

nlohmann::ordered_json plan_document(const Plan& plan, const PlanSummary& summary, double plan_ms) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerReport& report : plan.layers) {
    if (!report.is_dense) layers.push_back(layer_entry(report));
  }
  nlohmann::ordered_json document = {{"schema", "trimtab.plan/1"},
                                     {"locality", to_string(plan.locality)},
                                     {"layers", std::move(layers)},
                                     {"summary",
                                      {{"layers", summary.layers},
                                       {"imbalance_before_mean", summary.imbalance_before_mean},
                                       {"imbalance_mean", summary.imbalance_mean},
                                       {"imbalance_worst", summary.imbalance_worst},
                                       {"bound_mean", summary.bound_mean},
                                       {"gap_mean", summary.gap_mean},
                                       {"gap_worst", summary.gap_worst},
                                       {"locality_spill", summary.spill_mean},
                                       {"plan_ms", plan_ms},
                                       {"duplicates_on_rank", summary.duplicates_on_rank},
                                       {"vacant_slots", summary.vacant_slots}}}};
  if (summary.exact_mean) {
    document["summary"]["imbalance_exact_mean"] = *summary.exact_mean;
    document["summary"]["imbalance_exact_worst"] = summary.exact_worst;
  }
  return document;
}

std::string plan_text(const Plan& plan, const PlanSummary& summary, const Topology& topology,
                      double plan_ms) {
  if (summary.layers == 0) return "no layer carries load: the placement is the identity\n";
  std::string text = fmt::format(
      "imbalance  {:.4f} -> {:.4f} (max / mean rank load{}, mean over {} layers)\n"
      "{}"
      "bound      {:.4f}, gap {:.2f} %, worst {:.2f} % (no placement under these options beats the bound)\n"
      "worst      {:.4f} in layer {}\n"
      "slots      {}\n"
      "locality   {}\n"
      "planned in {:.1f} ms\n",
      summary.imbalance_before_mean, summary.imbalance_mean, summary.exact_mean ? ", even shares" : "",
      summary.layers, exact_text(summary), summary.bound_mean, 100.0 * summary.gap_mean,
      100.0 * summary.gap_worst, summary.imbalance_worst, summary.worst_layer.value(),
      slots_text(plan.placement, topology), to_string(plan.locality), plan_ms);
  if (plan.locality == Locality::group_spill) {
    text += fmt::format("spill      {:.2f} % of the load is served outside the home node of its group\n",
                        100.0 * summary.spill_mean);
  }
  if (summary.duplicates_on_rank > 0) {
    text += fmt::format("duplicates {} slots hold an expert that their rank holds already\n",
                        summary.duplicates_on_rank);
  }
  if (summary.vacant_slots > 0) {
    text += fmt::format("vacant     {} slots, written as -1 (SGLang does not take such a file)\n",
                        summary.vacant_slots);
  }
  return text;
}

}  // namespace trimtab
