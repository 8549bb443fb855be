// SPDX-License-Identifier: Apache-2.0
#include "report/trace_report.hpp"

#include <trimtab/core/imbalance.hpp>
#include <trimtab/core/noise_floor.hpp>

#include <algorithm>
#include <functional>
#include <utility>

namespace trimtab {
namespace {

/// The hottest experts of a layer, ascending.
std::vector<ExpertId> hottest(std::span<const double> loads) {
  std::vector<ExpertId> order;
  for (ExpertId expert : ids<ExpertId>(static_cast<std::int32_t>(loads.size()))) order.push_back(expert);
  std::ranges::stable_sort(order, std::greater<>(), [&](ExpertId expert) { return loads[expert.index()]; });
  order.resize(static_cast<std::size_t>(num_hot_experts(static_cast<std::int32_t>(loads.size()))));
  std::ranges::sort(order);
  return order;
}

/// By layer; empty for one without load.
using HotSets = std::vector<std::vector<ExpertId>>;

HotSets hot_sets_of(const LoadMatrix& loads) {
  HotSets sets;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    sets.push_back(loads.is_dense(layer) ? std::vector<ExpertId>{} : hottest(loads.layer(layer)));
  }
  return sets;
}

double share_in_common(const std::vector<ExpertId>& a, const std::vector<ExpertId>& b) {
  std::vector<ExpertId> common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return static_cast<double>(common.size()) / static_cast<double>(a.size());
}

double mean_share_in_common(const HotSets& a, const HotSets& b) {
  double sum = 0.0;
  int num_layers = 0;
  for (std::size_t layer = 0; layer < a.size(); ++layer) {
    if (a[layer].empty() || b[layer].empty()) continue;
    sum += share_in_common(a[layer], b[layer]);
    ++num_layers;
  }
  return num_layers == 0 ? 1.0 : sum / num_layers;
}

double mean_imbalance(const LoadMatrix& loads, const Placement& placement, const Topology& topology) {
  double sum = 0.0;
  int num_layers = 0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.is_dense(layer)) continue;
    const auto ranks = compute_rank_loads(loads.layer(layer), placement.layer(layer), topology);
    sum += compute_imbalance(ranks, topology).max_over_mean();
    ++num_layers;
  }
  return num_layers == 0 ? 1.0 : sum / num_layers;
}

nlohmann::ordered_json trace_entry(const TraceReport& report, std::size_t t, std::optional<std::size_t> top) {
  const TraceSummary& trace = report.traces[t];
  const nlohmann::ordered_json loads = load_document(report.loads[t], top);
  return {{"file", trace.file},
          {"domain", trace.domain},
          {"tokens", trace.num_tokens},
          {"prefill_tokens", trace.num_prefill},
          {"decode_tokens", trace.num_tokens - trace.num_prefill},
          {"requests", trace.num_requests},
          {"noise_floor", report.noise_floors[t]},
          {"layers", loads["layers"]},
          {"summary", loads["summary"]}};
}

}  // namespace

std::int32_t num_hot_experts(std::int32_t num_experts) noexcept { return std::max(1, num_experts / 4); }

TraceMatrix compute_hot_overlap(std::span<const TraceSummary> traces) {
  std::vector<HotSets> sets;
  for (const TraceSummary& trace : traces) sets.push_back(hot_sets_of(trace.loads));
  TraceMatrix overlap;
  for (const HotSets& a : sets) {
    std::vector<double>& row = overlap.emplace_back();
    for (const HotSets& b : sets) row.push_back(mean_share_in_common(a, b));
  }
  return overlap;
}

Result<TraceMatrix> compute_cross_imbalance(std::span<const TraceSummary> traces, const Topology& topology,
                                            const PlanOptions& options, Executor& executor) {
  TraceMatrix imbalance;
  for (const TraceSummary& made_for : traces) {
    const Result<Plan> plan = plan_rebalance(made_for.loads, topology, options, executor);
    if (!plan) {
      return failure(plan.error().code, made_for.file + ": " + plan.error().message);
    }
    std::vector<double>& row = imbalance.emplace_back();
    for (const TraceSummary& served : traces) {
      row.push_back(mean_imbalance(served.loads, plan->placement, topology));
    }
  }
  return imbalance;
}

void spread_traces(TraceReport& report, const Placement& placement, const Topology& topology) {
  report.num_ranks = topology.num_ranks();
  report.num_slots = topology.num_slots();
  for (const TraceSummary& trace : report.traces) {
    report.loads.push_back(inspect_loads(trace.loads, 1, Spread{placement, topology}));
    report.noise_floors.push_back(
        noise_floor(static_cast<double>(trace.num_tokens) * report.top_k, topology));
  }
  report.hot_overlap = compute_hot_overlap(report.traces);
}

nlohmann::ordered_json trace_document(const TraceReport& report, std::optional<std::size_t> top) {
  nlohmann::ordered_json traces = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < report.traces.size(); ++t) traces.push_back(trace_entry(report, t, top));
  const LoadReport& first = report.loads.front();
  nlohmann::ordered_json document = {{"schema", "trimtab.inspect/1"},
                                     {"kind", "traces"},
                                     {"model", report.model},
                                     {"experts", first.num_experts},
                                     {"groups", report.num_groups},
                                     {"top_k", report.top_k},
                                     {"dense_layers", first.dense_layers},
                                     {"ranks", report.num_ranks},
                                     {"slots", report.num_slots},
                                     {"placement", nullptr},
                                     {"traces", std::move(traces)},
                                     {"hot_experts", num_hot_experts(first.num_experts)},
                                     {"hot_overlap", report.hot_overlap}};
  if (!report.placement.empty()) document["placement"] = report.placement;
  if (report.cross_imbalance) document["cross_imbalance"] = *report.cross_imbalance;
  return document;
}

}  // namespace trimtab
