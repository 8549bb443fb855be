// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace trimtab::test {

/// Files `{"logical_count": [layers][experts]}` of the folder TRIMTAB_LOADS_DIR whose names begin so, in
/// order; none where it names no folder.
[[nodiscard]] std::vector<std::filesystem::path> recorded_loads(std::string_view prefix);

/// Stops the test program where the file is not of that form.
[[nodiscard]] LoadMatrix read_loads(const std::filesystem::path& file);

/// The loads of one of those files; nothing where there is none of that name.
[[nodiscard]] std::optional<LoadMatrix> recorded_file(std::string_view name);

}  // namespace trimtab::test
