// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/checksum.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace trimtab {

// Messages that travel as they lie in memory: `magic` first, `checksum` of all before it last, no padding.

template <class Wire>
[[nodiscard]] std::uint64_t checksum_of_fields(const Wire& message) noexcept {
  static_assert(std::has_unique_object_representations_v<Wire>);
  static_assert(offsetof(Wire, checksum) + sizeof message.checksum == sizeof message);
  return checksum_of(std::as_bytes(std::span(&message, 1)).first(offsetof(Wire, checksum)));
}

/// Sets the checksum.
template <class Wire>
void seal(Wire& message) noexcept {
  message.checksum = checksum_of_fields(message);
}

/// Whether magic and checksum are right.
template <class Wire>
[[nodiscard]] bool is_intact(const Wire& message) noexcept {
  return message.magic == Wire::magic_value && message.checksum == checksum_of_fields(message);
}

}  // namespace trimtab
