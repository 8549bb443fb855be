// SPDX-License-Identifier: Apache-2.0
#include "app/outputs.hpp"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace trimtab {

Status Outputs::add(const std::string& path, std::string content) {
  if (path.empty()) return {};
  Result<OutputFile> file = OutputFile::stage(path, std::move(content));
  if (!file) return failure(std::move(file));
  files_.push_back(std::move(*file));
  return {};
}

Status Outputs::add(const std::string& path, const nlohmann::ordered_json& document) {
  return add(path, document.dump(2) + '\n');
}

Status Outputs::commit() {
  std::fflush(stdout);  // Text printed so far goes before what is written to the descriptor.
  for (OutputFile& file : files_) {
    if (Status done = file.commit(); !done) return done;
  }
  return {};
}

bool is_same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  // Made absolute first: weakly_canonical leaves a relative path to nothing as it is.
  const auto resolved = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return resolved(a) == resolved(b) || std::filesystem::equivalent(a, b, error);
}

bool would_replace(const std::string& output, const std::string& input) {
  return input != "-" && is_same_file(output, input);
}

}  // namespace trimtab
