// SPDX-License-Identifier: Apache-2.0
#include "safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace trimtab {
namespace {

struct TypeRow {
  SafetensorsType type;
  std::string_view name;
  std::uint64_t bits;
};

constexpr std::array<TypeRow, 22> types{{
    {SafetensorsType::boolean, "BOOL", 8},
    {SafetensorsType::f4, "F4", 4},
    {SafetensorsType::f6_e2m3, "F6_E2M3", 6},
    {SafetensorsType::f6_e3m2, "F6_E3M2", 6},
    {SafetensorsType::u8, "U8", 8},
    {SafetensorsType::i8, "I8", 8},
    {SafetensorsType::f8_e5m2, "F8_E5M2", 8},
    {SafetensorsType::f8_e4m3, "F8_E4M3", 8},
    {SafetensorsType::f8_e8m0, "F8_E8M0", 8},
    {SafetensorsType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {SafetensorsType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {SafetensorsType::i16, "I16", 16},
    {SafetensorsType::u16, "U16", 16},
    {SafetensorsType::f16, "F16", 16},
    {SafetensorsType::bf16, "BF16", 16},
    {SafetensorsType::i32, "I32", 32},
    {SafetensorsType::u32, "U32", 32},
    {SafetensorsType::f32, "F32", 32},
    {SafetensorsType::c64, "C64", 64},
    {SafetensorsType::f64, "F64", 64},
    {SafetensorsType::i64, "I64", 64},
    {SafetensorsType::u64, "U64", 64},
}};

// `row_of` indexes by type.
static_assert(std::ranges::is_sorted(types, {}, &TypeRow::type) &&
              types.back().type == SafetensorsType::u64 &&
              static_cast<std::size_t>(SafetensorsType::u64) + 1 == types.size());

const TypeRow& row_of(SafetensorsType type) noexcept { return types[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view to_string(SafetensorsType type) noexcept { return row_of(type).name; }

std::uint64_t bits_of(SafetensorsType type) noexcept { return row_of(type).bits; }

std::optional<SafetensorsType> safetensors_type_named(std::string_view name) noexcept {
  const auto* row = std::ranges::find(types, name, &TypeRow::name);
  if (row == types.end()) return std::nullopt;
  return row->type;
}

Result<std::uint64_t> tensor_bytes(SafetensorsType type, std::span<const std::uint64_t> shape) {
  const auto said = [&] { return fmt::format("{} x [{}]", to_string(type), fmt::join(shape, ", ")); };
  std::uint64_t bits = bits_of(type);
  // A size of 0 must not hide that the others overflow: whoever multiplies them in another order would.
  for (const std::uint64_t size : shape) {
    if (size != 0 && __builtin_mul_overflow(bits, size, &bits)) {
      return failure(Errc::invalid_argument, fmt::format("{} has more than 2^64 - 1 bits", said()));
    }
  }
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  if (bits % 8 != 0) {
    return failure(Errc::invalid_argument, fmt::format("{} is no whole number of bytes", said()));
  }
  return bits / 8;
}

std::string shown(std::string_view name) {
  constexpr std::size_t max_shown_bytes = 96;
  std::string text = "'";
  for (const char c : name.substr(0, max_shown_bytes)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (name.size() > max_shown_bytes ? "...'" : "'");
}

}  // namespace trimtab
