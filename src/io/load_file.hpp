// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace trimtab {

/// What a load file holds (docs/formats/loads.md).
struct LoadFile {
  LoadMatrix loads;            ///< Summed over the steps.
  std::int32_t num_steps = 1;  ///< 1 for a file without a step axis.
};

/// `{"logical_count": [layers][experts] or [steps][layers][experts]}`; other keys are ignored.
/// @return `invalid_argument` in one line naming file, step, layer, expert and value: a NaN, infinite,
/// negative or
///         non-number entry, rows or steps of different lengths, an empty list, another number of axes, a sum
///         that is no longer finite, a missing key, or text that is not JSON.
[[nodiscard]] Result<LoadFile> parse_loads(const JsonText& text);

/// `JsonText::read`, then `parse_loads`. A trace (docs/formats/trace.md) is told by its first bytes and
/// counted: all of its tokens, in one step.
[[nodiscard]] Result<LoadFile> read_load_file(const std::string& path, const ReadProgress& progress = {});

/// The text of a load file: without a step axis for one phase, with it for several. Whole numbers are written
/// without a decimal point, others so that they read back as the same double.
/// Precondition: at least one phase, all of one shape.
[[nodiscard]] std::string format_loads(std::span<const LoadMatrix> phases);

}  // namespace trimtab
