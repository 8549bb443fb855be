// SPDX-License-Identifier: Apache-2.0
#include "io/input_kind.hpp"

#include "core/file_descriptor.hpp"
#include "io/top_level.hpp"
#include "weights/safetensors_header.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace trimtab {

InputKind find_input_kind(const JsonText& text) {
  const bool is_placement =
      !has_top_level_key(text, "logical_count") && has_top_level_key(text, "physical_to_logical_map");
  return is_placement ? InputKind::placement : InputKind::loads;
}

bool begins_as_safetensors(std::string_view bytes) {
  if (bytes.size() <= safetensors_length_bytes || bytes[safetensors_length_bytes] != '{') return false;
  std::uint64_t length = 0;
  for (std::size_t i = safetensors_length_bytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return length <= SafetensorsFile::max_header_bytes;
}

bool is_safetensors(const std::string& path) {
  struct stat info {};
  // Looked at before it is opened: a pipe's writer would see this reader come and go.
  if (path == "-" || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return false;
  std::array<char, safetensors_length_bytes + 1> bytes{};
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  return count > 0 && begins_as_safetensors({bytes.data(), static_cast<std::size_t>(count)});
}

}  // namespace trimtab
