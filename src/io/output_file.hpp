// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include "core/pending_file.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace trimtab {

/// A file that is wholly written beside its target and not yet in its place, so that several outputs can be
/// made ready before the first of them appears.
///
/// Lifecycle: stage -> commit, or destroy it and the target is as it was. One thread at a time.
class OutputFile {
 public:
  /// Writes `content` to a temporary file in the folder of `path` and syncs it. A target that is not a
  /// regular file (a terminal, a pipe, /dev/null) and "-" (standard output) have nothing to stage and are
  /// written by `commit`. A symbolic link is followed; a file that is replaced hands its permissions on.
  /// @return `io` naming the path; nothing is left behind.
  static Result<OutputFile> stage(const std::string& path, std::string content);

  /// Puts the content in its place, for a file by an atomic rename. Call once.
  /// @return `io` naming the path; a file that was there is then unchanged.
  Status commit();

 private:
  OutputFile(std::string path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}
  Status write_beside();

  std::string path_;                    ///< The target, links resolved; "-" for standard output.
  std::optional<PendingFile> pending_;  ///< None when nothing is staged.
  std::string content_;
};

}  // namespace trimtab
