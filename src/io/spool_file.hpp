// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/file_descriptor.hpp"

#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// Bytes that are appended now and read once, later. What is more than a piece lies in a file without a name.
/// Errors are `io`, naming the path that was given. One thread at a time.
class SpoolFile {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 18;

  /// In the folder of `path`.
  static Result<SpoolFile> create(const std::string& path);

  Status append(std::span<const std::byte> bytes);

  using Take = std::function<Status(std::span<const std::byte>)>;
  /// Hands everything to `take`, in order and in pieces. @return the first error, its own or that of `take`.
  [[nodiscard]] Status drain(const Take& take);

 private:
  SpoolFile(std::string path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  Status flush();

  std::string path_;
  FileDescriptor file_;
  std::uint64_t num_flushed_ = 0;
  std::vector<std::byte> pending_;
};

}  // namespace trimtab
