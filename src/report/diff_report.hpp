// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/plan/diff.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// Two placements compared, and what each makes of a load.
struct DiffReport {
  std::vector<LayerDiff> layers;
  std::int32_t slots = 0;                ///< Of a layer of the new placement.
  std::vector<double> imbalance_before;  ///< By layer; empty without loads.
  std::vector<double> imbalance_after;
  std::vector<bool> is_dense;
};

/// The imbalance of each layer before and after under `loads`.
/// Precondition: as diff_placements; `loads` has their layers and experts.
void add_imbalance(DiffReport& report, const LoadMatrix& loads, const Placement& before,
                   const Topology& old_topology, const Placement& after, const Topology& new_topology);

/// The document `trimtab.diff/1` (docs/formats/json-output.md).
[[nodiscard]] nlohmann::ordered_json diff_document(const DiffReport& report,
                                                   std::optional<std::uint64_t> expert_bytes);

/// A table with a row for each layer that changes; with `verbose` the slots of each, at most `limit` of them.
[[nodiscard]] std::string diff_text(const DiffReport& report, std::optional<std::uint64_t> expert_bytes,
                                    bool verbose, std::size_t limit);

}  // namespace trimtab
