// SPDX-License-Identifier: Apache-2.0
#include "file_access.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace trimtab {
namespace {

tl::unexpected<Error> cannot_read(const std::string& path, int error) {
  const Errc code = error == ENOENT || error == ENOTDIR ? Errc::not_found : Errc::io;
  return failure(code, fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
}

}  // namespace

Result<OpenedFile> open_to_read(const std::string& path) {
  OpenedFile file{FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), 0};
  if (!file.descriptor.is_open()) return cannot_read(path, errno);
  struct stat info {};
  if (::fstat(file.descriptor.get(), &info) != 0) return cannot_read(path, errno);
  if (S_ISDIR(info.st_mode)) return cannot_read(path, EISDIR);
  // A pipe cannot be read at an offset.
  if (!S_ISREG(info.st_mode)) return failure(Errc::io, fmt::format("{}: not a regular file", path));
  file.size_bytes = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status read_fully(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                  std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t count = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path, errno);
    if (count == 0) {
      return failure(Errc::io, fmt::format("{}: the file ends at {}, {} bytes too early: it was cut off",
                                           path, offset, to.size()));
    }
    offset += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<FileMapping> FileMapping::map(const OpenedFile& file, const std::string& path) {
  void* memory = ::mmap(nullptr, file.size_bytes, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
  if (memory == MAP_FAILED) {
    return failure(Errc::io, fmt::format("{}: {} bytes cannot be mapped: {}", path, file.size_bytes,
                                         std::strerror(errno)));
  }
  FileMapping mapping;
  mapping.bytes_ = {static_cast<const std::byte*>(memory), static_cast<std::size_t>(file.size_bytes)};
  return mapping;
}

FileMapping::FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace trimtab
