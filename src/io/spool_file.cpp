// SPDX-License-Identifier: Apache-2.0
#include "io/spool_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace trimtab {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  return failure(Errc::io, fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

}  // namespace

Result<SpoolFile> SpoolFile::create(const std::string& path) {
  const std::filesystem::path target(path);
  std::string name = target.parent_path() / fmt::format(".{}.XXXXXX", target.filename().string());
  FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) return cannot_write(path, errno);
  if (::unlink(name.c_str()) != 0) return cannot_write(path, errno);
  return SpoolFile(path, std::move(file));
}

Status SpoolFile::append(std::span<const std::byte> bytes) {
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  return pending_.size() < piece_bytes ? Status{} : flush();
}

Status SpoolFile::flush() {
  std::span<const std::byte> left(pending_);
  while (!left.empty()) {
    const ssize_t count = ::pwrite(file_.get(), left.data(), left.size(), static_cast<off_t>(num_flushed_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_write(path_, errno);
    num_flushed_ += static_cast<std::uint64_t>(count);
    left = left.subspan(static_cast<std::size_t>(count));
  }
  pending_.clear();
  return {};
}

Status SpoolFile::drain(const Take& take) {
  std::vector<std::byte> piece(piece_bytes);
  std::uint64_t done = 0;
  while (done < num_flushed_) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, num_flushed_ - done));
    const ssize_t count = ::pread(file_.get(), piece.data(), size, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return cannot_write(path_, count < 0 ? errno : EIO);
    if (Status s = take(std::span(piece).first(static_cast<std::size_t>(count))); !s) return s;
    done += static_cast<std::uint64_t>(count);
  }
  return take(pending_);
}

}  // namespace trimtab
