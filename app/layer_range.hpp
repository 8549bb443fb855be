// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>

#include <cstdint>
#include <string>

namespace trimtab {

/// Rows first <= row < last.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// What `--layers A:B` means for a file of `num_layers` rows. Usage error when it is not of that form or
/// reaches beyond the file.
[[nodiscard]] LayerRange checked_range(const std::string& text, std::int32_t num_layers);

/// The loads with all other rows zero. Planner and reports leave layers without load out, which is what is
/// wanted of layers outside the range.
[[nodiscard]] LoadMatrix only_layers(const LoadMatrix& loads, LayerRange range);

}  // namespace trimtab
