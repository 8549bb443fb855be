// SPDX-License-Identifier: Apache-2.0
#include "app/placement_input.hpp"

#include "app/commands.hpp"
#include "io/placement_file.hpp"

#include <fmt/format.h>

#include <utility>

namespace trimtab {

Result<Placement> read_placement_for(const std::string& path, const LoadMatrix& loads,
                                     const std::string& loads_path) {
  Result<JsonText> text = JsonText::read(path);
  if (!text) return failure(std::move(text));
  Result<Placement> placement = parse_placement(*text, loads.num_experts());
  if (placement && placement->num_layers() != loads.num_layers()) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: {} layers, but {} has {}", path, placement->num_layers(), loads_path,
                               loads.num_layers()));
  }
  return placement;
}

Topology make_topology_for(const ClusterOptions& cluster, const Placement& placement) {
  const std::int32_t slots = cluster.num_slots().value_or(placement.num_slots());
  if (slots != placement.num_slots()) {
    usage_error("--slots", fmt::format("{} slots, but the placement has {}", slots, placement.num_slots()));
  }
  return cluster.make_topology(slots);
}

}  // namespace trimtab
