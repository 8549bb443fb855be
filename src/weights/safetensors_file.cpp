// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/safetensors.hpp>

#include "file_access.hpp"
#include "safetensors_header.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trimtab {
namespace {

/// Checked before anything of that size is reserved.
Status check_length(const std::string& path, std::uint64_t length, std::uint64_t file_bytes) {
  const std::uint64_t room = file_bytes - safetensors_length_bytes;
  if (length > SafetensorsFile::max_header_bytes) {
    return failure(Errc::invalid_argument, fmt::format("{}: a header of {} bytes > {}, the longest allowed",
                                                       path, length, SafetensorsFile::max_header_bytes));
  }
  if (length <= room) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("{}: a header of {} bytes > {}, the rest of the file", path, length, room));
}

Result<std::uint64_t> read_length(const OpenedFile& file, const std::string& path) {
  if (file.size_bytes < safetensors_length_bytes) {
    return failure(Errc::invalid_argument, fmt::format("{}: {} bytes < {}, the length of the header", path,
                                                       file.size_bytes, safetensors_length_bytes));
  }
  std::array<std::byte, safetensors_length_bytes> bytes{};
  if (Status done = read_fully(file.descriptor, path, 0, bytes); !done) return failure(std::move(done));
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (Status fits = check_length(path, length, file.size_bytes); !fits) return failure(std::move(fits));
  return length;
}

}  // namespace

struct SafetensorsFile::Contents {
  std::string path;
  OpenedFile file;
  FileMapping mapping;
  std::uint64_t data_begin = 0;
  SafetensorsHeader header;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<Contents> contents) noexcept
    : contents_(std::move(contents)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto contents = std::make_unique<Contents>();
  contents->path = path;
  auto file = open_to_read(path);
  if (!file) return failure(std::move(file));
  auto length = read_length(*file, path);
  if (!length) return failure(std::move(length));
  std::string text(static_cast<std::size_t>(*length), '\0');
  const auto room = std::as_writable_bytes(std::span(text));
  if (Status done = read_fully(file->descriptor, path, safetensors_length_bytes, room); !done) {
    return failure(std::move(done));
  }
  contents->data_begin = safetensors_length_bytes + *length;
  auto header = parse_safetensors_header(path, text, file->size_bytes - contents->data_begin);
  if (!header) return failure(std::move(header));
  auto mapping = FileMapping::map(*file, path);
  if (!mapping) return failure(std::move(mapping));
  contents->file = *std::move(file);
  contents->mapping = *std::move(mapping);
  contents->header = *std::move(header);
  return SafetensorsFile(std::move(contents));
}

const std::string& SafetensorsFile::path() const noexcept { return contents_->path; }

std::span<const SafetensorsTensor> SafetensorsFile::tensors() const noexcept {
  return contents_->header.tensors;
}

const SafetensorsMetadata& SafetensorsFile::metadata() const noexcept { return contents_->header.metadata; }

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto& all = contents_->header.tensors;
  const auto at =
      std::ranges::lower_bound(all, name, {}, [](const auto& t) { return std::string_view(t.name); });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsTensor& tensor) const noexcept {
  return contents_->mapping.bytes().subspan(static_cast<std::size_t>(contents_->data_begin + tensor.begin),
                                            static_cast<std::size_t>(tensor.size_bytes()));
}

Status SafetensorsFile::read(const SafetensorsTensor& tensor, std::uint64_t offset,
                             std::span<std::byte> to) const {
  if (offset > tensor.size_bytes() || to.size() > tensor.size_bytes() - offset) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: tensor {}: {} bytes from {} on, but it has {}", path(),
                               shown(tensor.name), to.size(), offset, tensor.size_bytes()));
  }
  Status done =
      read_fully(contents_->file.descriptor, path(), contents_->data_begin + tensor.begin + offset, to);
  if (!done) done.error().message += fmt::format(" (in tensor {})", shown(tensor.name));
  return done;
}

void SafetensorsFile::prefetch(const SafetensorsTensor& tensor) const noexcept {
  static_cast<void>(::posix_fadvise(contents_->file.descriptor.get(),
                                    static_cast<off_t>(contents_->data_begin + tensor.begin),
                                    static_cast<off_t>(tensor.size_bytes()), POSIX_FADV_WILLNEED));
}

}  // namespace trimtab
