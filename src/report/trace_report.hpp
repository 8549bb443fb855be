// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/load_report.hpp"

#include <trimtab/core/executor.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/plan/planner.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// One trace, counted.
struct TraceSummary {
  std::string file;
  std::string domain;
  std::uint64_t num_tokens = 0;
  std::uint64_t num_prefill = 0;  ///< Of these.
  std::uint64_t num_requests = 0;
  LoadMatrix loads;
};

/// A value for each pair of traces: [row][column].
using TraceMatrix = std::vector<std::vector<double>>;

/// Traces of one model beside each other.
struct TraceReport {
  std::string model;
  std::int32_t num_groups = 1;
  std::int32_t top_k = 0;
  std::int32_t num_ranks = 0;
  std::int32_t num_slots = 0;
  std::string placement;             ///< The file that spreads the loads; empty: the identity.
  std::vector<TraceSummary> traces;  ///< All of one shape; at least one.
  std::vector<LoadReport> loads;     ///< By trace, with ranks.
  std::vector<double> noise_floors;  ///< By trace: what chance alone gives for as many assignments.
  TraceMatrix hot_overlap;           ///< Share of the hottest experts that two traces have in common.
  std::optional<TraceMatrix> cross_imbalance;  ///< [made for][served].
};

/// How many experts of a layer count as the hottest: a quarter of them, at least one.
[[nodiscard]] std::int32_t num_hot_experts(std::int32_t num_experts) noexcept;

/// For each pair the share of the hottest experts in common, mean over the layers that carry load in both; 1
/// where there are none. Of equally hot experts the lower is taken. What chance alone gives is a quarter.
[[nodiscard]] TraceMatrix compute_hot_overlap(std::span<const TraceSummary> traces);

/// The mean imbalance over layers that each trace has under a plan made for each: [made for][served].
/// @return the errors of the planner.
[[nodiscard]] Result<TraceMatrix> compute_cross_imbalance(std::span<const TraceSummary> traces,
                                                          const Topology& topology,
                                                          const PlanOptions& options, Executor& executor);

/// Fills `loads`, `noise_floors`, `hot_overlap` and the numbers of ranks and slots of a report that has its
/// traces.
void spread_traces(TraceReport& report, const Placement& placement, const Topology& topology);

/// The document `trimtab.inspect/1` for traces; of each the `top` worst layers only, when given.
[[nodiscard]] nlohmann::ordered_json trace_document(const TraceReport& report,
                                                    std::optional<std::size_t> top);

/// Tables of at most 100 columns, as far as names and numbers of usual length go.
[[nodiscard]] std::string trace_text(const TraceReport& report, std::optional<std::size_t> top);

}  // namespace trimtab
