// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/safetensors.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// Bytes before the header's text: its length, little-endian.
inline constexpr std::size_t safetensors_length_bytes = 8;
/// Key of the header that is no tensor.
inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< Sorted by name.
  SafetensorsMetadata metadata;
};

/// Parses and checks the text of a header that `data_bytes` of tensors follow. `path` is for messages.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(const std::string& path,
                                                                 std::string_view text,
                                                                 std::uint64_t data_bytes);

[[nodiscard]] std::optional<SafetensorsType> safetensors_type_named(std::string_view name) noexcept;

/// A name out of a file as it may stand in a message: one line, printable, not long.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace trimtab
