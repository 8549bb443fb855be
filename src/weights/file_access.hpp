// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include "core/file_descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trimtab {

struct OpenedFile {
  FileDescriptor descriptor{-1};
  std::uint64_t size_bytes = 0;
};

/// Opens a regular file for reading. @return `not_found` or `io`, naming the path.
[[nodiscard]] Result<OpenedFile> open_to_read(const std::string& path);

/// Fills `to` from `offset` on. @return `io`, naming the path, also when the file ends before.
[[nodiscard]] Status read_fully(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                                std::span<std::byte> to);

/// Address space of a whole file, read-only. Its pages are fetched when they are touched.
class FileMapping {
 public:
  static Result<FileMapping> map(const OpenedFile& file, const std::string& path);
  FileMapping() = default;
  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&& other) noexcept;
  ~FileMapping();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace trimtab
