// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab::test {

/// A file as the format's page draws it, put together past the writer: length, header, data.
inline std::string raw_safetensors(std::uint64_t header_bytes, std::string_view header,
                                   std::string_view data) {
  std::string file;
  for (int shift = 0; shift < 64; shift += 8) file += static_cast<char>(header_bytes >> shift & 0xff);
  return file.append(header).append(data);
}

inline std::string raw_safetensors(std::string_view header, std::string_view data) {
  return raw_safetensors(header.size(), header, data);
}

}  // namespace trimtab::test
