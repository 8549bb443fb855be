// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// How the slots of one layer are used.
struct LayerSlots {
  LayerId layer;
  std::int32_t vacant = 0;
  std::int32_t replicated = 0;  ///< Experts with more than one replica.
  std::int32_t max_replicas = 0;
  ExpertId most_replicated;                        ///< The lowest expert with that many.
  std::optional<std::int32_t> duplicates_on_rank;  ///< Known only with a topology.
};

/// One entry per layer. Precondition: a topology has the slots of the placement.
[[nodiscard]] std::vector<LayerSlots> inspect_placement(const Placement& placement, const Topology* topology);

/// The document `trimtab.inspect/1` for a placement.
[[nodiscard]] nlohmann::ordered_json placement_document(const Placement& placement,
                                                        const std::vector<LayerSlots>& layers);

/// A table with a row for each layer.
[[nodiscard]] std::string placement_text(const std::vector<LayerSlots>& layers);

}  // namespace trimtab
