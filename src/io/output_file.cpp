// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.hpp"

#include "core/file_descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

namespace trimtab {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  return failure(Errc::io, fmt::format("{}: cannot be written: {}", path == "-" ? "standard output" : path,
                                       std::strerror(error)));
}

/// 0, or the error number.
int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

int write_through(const std::string& path, std::string_view content) {
  if (path == "-") return write_all(STDOUT_FILENO, content);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.is_open() ? write_all(file.get(), content) : errno;
}

std::string resolve_links(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  return error || resolved.empty() ? path : resolved.string();
}

}  // namespace

Result<OutputFile> OutputFile::stage(const std::string& path, std::string content) {
  if (path == "-") return OutputFile(path, std::move(content));
  OutputFile file(resolve_links(path), std::move(content));
  struct stat info {};
  const bool exists = ::stat(file.path_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) return file;
  if (exists && ::access(file.path_.c_str(), W_OK) != 0) return cannot_write(path, errno);
  if (Status done = file.write_beside(); !done) return failure(std::move(done));
  if (exists) {
    if (Status kept = file.pending_->set_mode(info.st_mode & 07777); !kept) return failure(std::move(kept));
  }
  return file;
}

Status OutputFile::write_beside() {
  Result<PendingFile> pending = PendingFile::create(path_);
  if (!pending) return failure(std::move(pending));
  if (Status written = pending->write(0, std::as_bytes(std::span(content_))); !written) return written;
  if (Status synced = pending->sync(); !synced) return synced;
  pending_ = std::move(*pending);
  content_.clear();
  return {};
}

Status OutputFile::commit() {
  if (pending_) return pending_->commit();
  if (const int error = write_through(path_, content_)) return cannot_write(path_, error);
  return {};
}

}  // namespace trimtab
