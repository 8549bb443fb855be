// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/safetensors.hpp>

#include <functional>
#include <string>
#include <vector>

namespace trimtab {

/// The name under which HuggingFace's tools look for an index.
inline constexpr std::string_view index_name = "model.safetensors.index.json";

/// A tensor and the file in which it is.
struct TensorPlace {
  const SafetensorsFile* file = nullptr;
  const SafetensorsTensor* tensor = nullptr;
};

/// The files of a checkpoint, all open.
class CheckpointFiles {
 public:
  /// As `CheckpointSource::open` says. Tensors that an index does not name are not visited.
  static Result<CheckpointFiles> open(const std::string& path);

  /// By file, tensors sorted by name.
  [[nodiscard]] std::span<const TensorPlace> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::span<const SafetensorsFile> files() const noexcept { return files_; }

 private:
  Status open_index(const std::string& path);
  Status open_folder(const std::string& path);
  Status open_all(std::span<const std::string> paths);
  Status check_unique() const;

  std::vector<SafetensorsFile> files_;
  std::vector<TensorPlace> tensors_;
};

}  // namespace trimtab
