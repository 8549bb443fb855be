// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_metadata.hpp"

#include <fmt/format.h>

#include <charconv>

namespace trimtab {

std::string checksum_key(LayerId layer, ExpertId expert) {
  return fmt::format("trimtab.xxh3.{}.{}", layer.value(), expert.value());
}

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || text.size() != 16 || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string bundle_key(LayerId layer) { return fmt::format("trimtab.bundle.{}", layer.value()); }

std::string bundle_text(std::span<const TensorSpec> tensors) {
  std::string text;
  for (const TensorSpec& tensor : tensors) text += (text.empty() ? "" : ",") + tensor.name;
  return text;
}

SafetensorsType stored_type(ElementType type) noexcept {
  switch (type) {
    case ElementType::int8:
      return SafetensorsType::i8;
    case ElementType::uint8:
      return SafetensorsType::u8;
    case ElementType::float16:
      return SafetensorsType::f16;
    case ElementType::bfloat16:
      return SafetensorsType::bf16;
    case ElementType::int32:
      return SafetensorsType::i32;
    case ElementType::float32:
      return SafetensorsType::f32;
  }
  return SafetensorsType::u8;
}

bool is_stored_as(ElementType wanted, SafetensorsType type) noexcept {
  if (wanted == ElementType::uint8) return bits_of(type) <= 8 && type != SafetensorsType::i8;
  return type == stored_type(wanted);
}

}  // namespace trimtab
