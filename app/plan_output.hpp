// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace trimtab {

/// What `plan` writes: the placement file, the document of `--json`, and the text for a person.
struct PlanOutput {
  Placement placement;
  nlohmann::ordered_json document;
  std::string text;
};

}  // namespace trimtab
