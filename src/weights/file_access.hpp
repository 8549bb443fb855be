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

/// A file that grows beside its target and takes its place at `commit`, or leaves nothing.
class PendingFile {
 public:
  static Result<PendingFile> create(const std::string& path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&& other) noexcept;
  ~PendingFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Syncs the file, renames it, and syncs its folder.
  Status commit();

 private:
  PendingFile(std::string path, std::string temporary, FileDescriptor file) noexcept;

  std::string path_;
  std::string temporary_;  ///< Empty once committed.
  FileDescriptor file_;
};

}  // namespace trimtab
