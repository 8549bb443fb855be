// SPDX-License-Identifier: Apache-2.0
#include "core/pending_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace trimtab {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  return failure(Errc::io, fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

/// Ranks of one process may write at once.
std::string temporary_name(const std::filesystem::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() /
         fmt::format(".{}.{}.{}.tmp", target.filename().string(), ::getpid(), ++counter);
}

/// So that a rename survives a power cut. Some file systems refuse to sync a folder; the file is in its place
/// anyway.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const FileDescriptor opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) ::fsync(opened.get());
}

}  // namespace

PendingFile::PendingFile(std::string path, std::string temporary, FileDescriptor file) noexcept
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

Result<PendingFile> PendingFile::create(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return cannot_write(path, EISDIR);
  std::string temporary = temporary_name(path);
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) return cannot_write(path, errno);
  return PendingFile(path, std::move(temporary), std::move(file));
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

PendingFile& PendingFile::operator=(PendingFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(file_, other.file_);
  return *this;
}

PendingFile::~PendingFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status PendingFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_write(path_, errno);
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status PendingFile::set_mode(unsigned mode) {
  if (::fchmod(file_.get(), mode) != 0) return cannot_write(path_, errno);
  return {};
}

Status PendingFile::sync() {
  if (::fsync(file_.get()) != 0) return cannot_write(path_, errno);
  return {};
}

Status PendingFile::commit() {
  if (Status synced = sync(); !synced) return synced;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
  temporary_.clear();
  sync_folder_of(path_);
  return {};
}

}  // namespace trimtab
