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

/// So that a rename survives a power cut. Some file systems refuse to sync a folder; the file is in place
/// anyway.
void sync_folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const FileDescriptor opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) ::fsync(opened.get());
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
  if (exists && ::chmod(file.temporary_.c_str(), info.st_mode & 07777) != 0) return cannot_write(path, errno);
  return file;
}

Status OutputFile::write_beside() {
  const fs::path target(path_);
  temporary_ = (target.parent_path() / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid()));
  const FileDescriptor file(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    const int error = errno;
    temporary_.clear();
    return cannot_write(path_, error);
  }
  if (const int error = write_all(file.get(), content_)) return cannot_write(path_, error);
  if (::fsync(file.get()) != 0) return cannot_write(path_, errno);
  content_.clear();
  return {};
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      content_(std::move(other.content_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(content_, other.content_);
  return *this;
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::commit() {
  if (temporary_.empty()) {
    if (const int error = write_through(path_, content_)) return cannot_write(path_, error);
    return {};
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
  temporary_.clear();
  sync_folder_of(path_);
  return {};
}

}  // namespace trimtab
