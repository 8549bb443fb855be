// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::test {

/// `{"logical_count": [layers][experts]}` of a file of TRIMTAB_LOADS_DIR; nothing where there is none.
inline std::optional<LoadMatrix> recorded_file(const std::string& name) {
  const char* folder = std::getenv("TRIMTAB_LOADS_DIR");
  if (folder == nullptr || !std::filesystem::exists(std::filesystem::path(folder) / name)) return {};
  std::ifstream stream(std::filesystem::path(folder) / name);
  const auto rows = nlohmann::json::parse(stream).at("logical_count").get<std::vector<std::vector<double>>>();
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  auto made = LoadMatrix::make(static_cast<std::int32_t>(rows.size()),
                               static_cast<std::int32_t>(rows.front().size()), std::move(values));
  if (!made) return {};
  return *std::move(made);
}

}  // namespace trimtab::test
