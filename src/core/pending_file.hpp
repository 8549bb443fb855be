// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include "core/file_descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trimtab {

/// A file that grows beside its target and takes its place at `commit`, or leaves nothing. One thread at a
/// time; several in one process may have the same target. Errors are `io`, naming the path.
class PendingFile {
 public:
  static Result<PendingFile> create(const std::string& path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&& other) noexcept;
  ~PendingFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Permissions of the file, instead of those that the process gives new ones.
  Status set_mode(unsigned mode);
  /// What was written so far survives a power cut from now on.
  Status sync();
  /// Syncs the file, renames it, and syncs its folder.
  Status commit();

 private:
  PendingFile(std::string path, std::string temporary, FileDescriptor file) noexcept;

  std::string path_;
  std::string temporary_;  ///< Empty once committed.
  FileDescriptor file_;
};

}  // namespace trimtab
