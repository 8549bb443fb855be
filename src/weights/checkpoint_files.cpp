// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_files.hpp"

#include <trimtab/weights/safetensors_writer.hpp>

#include "safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace trimtab {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

Result<std::vector<std::string>> list_folder(const std::string& path) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    // A writer's temporary files begin with a dot.
    const std::string name = entry->path().filename().string();
    if (entry->path().extension() == ".safetensors" && !name.starts_with('.')) paths.push_back(entry->path());
  }
  if (error) return failure(Errc::io, fmt::format("{}: cannot be listed: {}", path, error.message()));
  if (paths.empty()) return failure(Errc::not_found, fmt::format("{}: no safetensors file in it", path));
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

Result<CheckpointFiles> CheckpointFiles::open(const std::string& path) {
  CheckpointFiles files;
  std::error_code ignored;
  Status done;
  if (fs::is_directory(path, ignored)) {
    done = files.open_folder(path);
  } else if (path.ends_with(".json")) {
    done = files.open_index(path);
  } else {
    done = files.open_all(std::span(&path, 1));
  }
  if (!done) return failure(std::move(done));
  return files;
}

Status CheckpointFiles::open_folder(const std::string& path) {
  const fs::path index = fs::path(path) / index_name;
  std::error_code ignored;
  if (fs::exists(index, ignored)) return open_index(index);
  const auto paths = list_folder(path);
  if (!paths) return tl::unexpected<Error>(paths.error());
  return open_all(*paths);
}

Status CheckpointFiles::open_all(std::span<const std::string> paths) {
  files_.reserve(paths.size());
  for (const std::string& path : paths) {
    auto file = SafetensorsFile::open(path);
    if (!file) return tl::unexpected<Error>(std::move(file).error());
    files_.push_back(*std::move(file));
  }
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) tensors_.push_back({&file, &tensor});
  }
  return check_unique();
}

Status CheckpointFiles::check_unique() const {
  std::map<std::string_view, const SafetensorsFile*> seen;
  for (const TensorPlace& place : tensors_) {
    const auto [at, is_new] = seen.emplace(place.tensor->name, place.file);
    if (is_new) continue;
    return bad(fmt::format("tensor {} is in {} and in {}", shown(place.tensor->name), at->second->path(),
                           place.file->path()));
  }
  return {};
}

Status CheckpointFiles::open_index(const std::string& path) {
  const auto index = SafetensorsIndex::read(path);
  if (!index) return tl::unexpected<Error>(index.error());
  std::map<std::string_view, const SafetensorsFile*> by_name;
  for (const auto& [tensor, name] : index->file_of) by_name.emplace(name, nullptr);
  files_.reserve(by_name.size());
  for (auto& [name, opened] : by_name) {
    auto file = SafetensorsFile::open((fs::path(path).parent_path() / name).string());
    if (!file) return tl::unexpected<Error>(std::move(file).error());
    opened = &files_.emplace_back(*std::move(file));
  }
  for (const auto& [name, file_name] : index->file_of) {
    const SafetensorsFile* file = by_name.find(file_name)->second;
    const SafetensorsTensor* tensor = file->find(name);
    if (tensor == nullptr)
      return bad(fmt::format("{}: tensor {} is not in {}", path, shown(name), file->path()));
    tensors_.push_back({file, tensor});
  }
  return {};
}

}  // namespace trimtab
