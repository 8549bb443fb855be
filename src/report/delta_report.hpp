// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>
#include <trimtab/plan/delta.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab {

/// A delta plan in a few numbers. Means are unweighted over the layers that are not dense; sums are over all.
struct DeltaSummary {
  std::int32_t layers = 0;  ///< That are not dense.
  double imbalance_from_mean = 1.0;
  double imbalance_mean = 1.0;
  double imbalance_full_mean = 1.0;
  ChangeCounts counts;
  std::int64_t moves_bound = 0;
  std::int64_t slots = 0;  ///< Of all layers.
};

[[nodiscard]] DeltaSummary summarize(const DeltaPlan& delta);

/// Adds what --from adds to a document `trimtab.plan/1` (docs/formats/json-output.md).
/// @param expert_bytes  null bytes without it
void add_delta(nlohmann::ordered_json& document, const DeltaPlan& delta, const DeltaSummary& summary,
               std::optional<std::uint64_t> expert_bytes, bool with_curve);

/// A few lines for a person.
[[nodiscard]] std::string delta_text(const DeltaPlan& delta, const DeltaSummary& summary,
                                     std::optional<std::uint64_t> expert_bytes, double plan_ms);

/// A table: what all layers together come to when each may make so many moves.
[[nodiscard]] std::string curve_text(const DeltaPlan& delta);

/// "12.3 GB": three digits, decimal units.
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace trimtab
