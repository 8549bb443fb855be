// SPDX-License-Identifier: Apache-2.0
#include "support/recorded_loads.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "support/generated_loads.hpp"

namespace trimtab::test {

std::vector<std::filesystem::path> recorded_loads(std::string_view prefix) {
  std::vector<std::filesystem::path> files;
  const char* folder = std::getenv("TRIMTAB_LOADS_DIR");
  if (folder == nullptr || !std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(prefix)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

LoadMatrix read_loads(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const auto rows = nlohmann::json::parse(stream).at("logical_count").get<std::vector<std::vector<double>>>();
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  const LoadShape shape{static_cast<std::int32_t>(rows.size()), static_cast<std::int32_t>(rows[0].size())};
  return loads_of(shape, std::move(values));
}

std::optional<LoadMatrix> recorded_file(std::string_view name) {
  for (const auto& file : recorded_loads(name)) {
    if (file.filename() == name) return read_loads(file);
  }
  return std::nullopt;
}

}  // namespace trimtab::test
