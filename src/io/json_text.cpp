// SPDX-License-Identifier: Apache-2.0
#include "io/json_text.hpp"

#include "core/file_descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trimtab {
namespace {

constexpr std::size_t padding_bytes = 64;  // simdjson asks for 32; a whole cache line costs nothing.
constexpr std::size_t piece_bytes = std::size_t{8} << 20;
constexpr std::size_t max_bytes = 0xFFFFFFFF - padding_bytes;  // simdjson keeps offsets in 32 bits.

tl::unexpected<Error> cannot_read(const std::string& path, int error) {
  const Errc code = error == ENOENT || error == ENOTDIR ? Errc::not_found : Errc::io;
  return failure(code, fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
}

tl::unexpected<Error> too_large(const std::string& path, std::uint64_t size_bytes) {
  return failure(Errc::invalid_argument,
                 fmt::format("{}: at least {} bytes > {}, the largest file that can be read", path,
                             size_bytes, max_bytes));
}

}  // namespace

Result<JsonText> JsonText::read(const std::string& path, const ReadProgress& progress) {
  const bool is_standard_input = path == "-";
  const FileDescriptor opened(is_standard_input ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!is_standard_input && !opened.is_open()) return cannot_read(path, errno);
  const int descriptor = is_standard_input ? STDIN_FILENO : opened.get();

  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return cannot_read(path, errno);
  if (S_ISDIR(info.st_mode)) return cannot_read(path, EISDIR);
  const auto total_bytes = S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
  if (total_bytes > max_bytes) return too_large(path, total_bytes);

  JsonText text(is_standard_input ? "standard input" : path);
  if (Status done = text.read_to_end(descriptor, total_bytes, progress); !done) {
    return failure(std::move(done));
  }
  if (text.size_ == 0) return failure(Errc::invalid_argument, fmt::format("{}: empty file", text.path_));
  return text;
}

JsonText JsonText::copy_of(std::string path, std::string_view text) {
  JsonText copy(std::move(path));
  copy.reserve(text.size());
  std::copy(text.begin(), text.end(), copy.bytes_.get());
  copy.size_ = text.size();
  std::memset(copy.bytes_.get() + copy.size_, 0, padding_bytes);
  return copy;
}

void JsonText::reserve(std::size_t size) {
  auto grown = std::make_unique_for_overwrite<char[]>(size + padding_bytes);
  std::copy_n(bytes_.get(), size_, grown.get());
  bytes_ = std::move(grown);
  capacity_ = size + padding_bytes;
}

// A file may grow or shrink while it is read, so its size is only a hint.
Status JsonText::read_to_end(int descriptor, std::uint64_t total_bytes, const ReadProgress& progress) {
  reserve(static_cast<std::size_t>(total_bytes) + 1);
  while (true) {
    if (size_ + padding_bytes == capacity_) reserve(std::max(piece_bytes, 2 * size_));
    const std::size_t room = capacity_ - padding_bytes - size_;
    const ssize_t count = ::read(descriptor, bytes_.get() + size_, std::min(room, piece_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path_, errno);
    if (count == 0) break;
    size_ += static_cast<std::size_t>(count);
    if (size_ > max_bytes) return too_large(path_, size_);
    if (progress) progress(size_, total_bytes);
  }
  std::memset(bytes_.get() + size_, 0, padding_bytes);
  return {};
}

}  // namespace trimtab
