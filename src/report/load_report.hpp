// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/imbalance.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// The load of one layer, and how even a placement makes it.
struct LayerLoad {
  LayerId layer;
  double total = 0.0;
  double mean = 0.0;  ///< Over the experts.
  double max = 0.0;
  ExpertId hottest;                ///< The lowest expert with the largest load.
  std::optional<Imbalance> ranks;  ///< Of the rank loads under the placement, if there is one.
};

struct LoadReport {
  std::int32_t num_experts = 0;
  std::int32_t num_steps = 1;
  std::vector<std::int32_t> dense_layers;
  std::vector<LayerLoad> layers;  ///< Those that are not dense, in order.
};

/// How a placement spreads loads over ranks. Precondition: shapes agree.
struct Spread {
  const Placement& placement;
  const Topology& topology;
};

[[nodiscard]] LoadReport inspect_loads(const LoadMatrix& loads, std::int32_t num_steps,
                                       const std::optional<Spread>& spread);

/// The document `trimtab.inspect/1` for loads; the `top` worst layers only, when given.
[[nodiscard]] nlohmann::ordered_json load_document(const LoadReport& report, std::optional<std::size_t> top);

/// A table with a row for each layer, then `average` and `worst`.
[[nodiscard]] std::string load_text(const LoadReport& report, std::optional<std::size_t> top);

}  // namespace trimtab
