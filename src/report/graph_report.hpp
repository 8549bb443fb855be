// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace trimtab {

/// Adds what the replica graph of each listed layer is like to a document `trimtab.plan/1`, and what it is
/// like over the layers to its summary (docs/formats/json-output.md). Gives a line for a person.
[[nodiscard]] std::string add_replica_graphs(nlohmann::ordered_json& document, const Plan& plan,
                                             const Topology& topology);

}  // namespace trimtab
