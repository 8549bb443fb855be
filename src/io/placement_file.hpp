// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"

#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab {

/// `{"physical_to_logical_map": [layers][slots]}`, -1 where vacant (docs/formats/placement.md).
/// @param num_experts  of the model; without it, one more than the largest expert in the file
/// @return `invalid_argument` naming file, layer, slot and value for an entry that is no expert, rows of
/// different
///         lengths or an empty list; `infeasible` when an expert has no slot in some layer.
[[nodiscard]] Result<Placement> parse_placement(const JsonText& text,
                                                std::optional<std::int32_t> num_experts = {});

/// The text of a placement file: that key alone, because SGLang passes every key on as an argument of its
/// own.
[[nodiscard]] std::string format_placement(const Placement& placement);

}  // namespace trimtab
