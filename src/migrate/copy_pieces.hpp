// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/seal.hpp"

#include <trimtab/core/ids.hpp>
#include <trimtab/weights/host_copy_source.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace trimtab {

/// Asks a keeper for a piece of a bundle.
struct PieceRequest {
  static constexpr std::uint32_t magic_value = 0x54545031;  // "TTP1"

  std::uint32_t magic = magic_value;
  std::int32_t layer = 0;
  std::int32_t expert = 0;
  std::uint32_t unused = 0;
  std::uint64_t fetch = 0;  ///< Which try of the reader's it belongs to.
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
};
static_assert(std::has_unique_object_representations_v<PieceRequest>);

/// The answer; the bytes follow it.
struct PieceHeader {
  static constexpr std::uint32_t magic_value = 0x54545132;  // "TTQ2"

  std::uint32_t magic = magic_value;
  std::uint32_t is_kept = 0;  ///< 0: there is no such copy, and all below is 0.
  std::uint64_t fetch = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;             ///< Of the piece: what was asked for, as far as the bundle goes.
  std::uint64_t bundle_bytes = 0;     ///< Of the whole bundle …
  std::uint64_t bundle_checksum = 0;  ///< … from when it was stored.
  std::uint64_t checksum = 0;
};
static_assert(std::has_unique_object_representations_v<PieceHeader>);

/// The message at the beginning of `bytes`, if it is whole and undamaged.
template <class Wire>
[[nodiscard]] std::optional<Wire> read_message(std::span<const std::byte> bytes) noexcept {
  Wire message;
  if (bytes.size() < sizeof message) return std::nullopt;
  std::memcpy(&message, bytes.data(), sizeof message);
  return is_intact(message) ? std::optional(message) : std::nullopt;
}

/// What a keeper answers: header and bytes, in `to`. `copies` may be null.
void answer_request(const PieceRequest& request, const HostCopySource* copies, std::vector<std::byte>& to);

}  // namespace trimtab
