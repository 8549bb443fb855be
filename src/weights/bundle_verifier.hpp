// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/checksum.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trimtab {

/// A piece is copied and checksummed while it is in the cache.
inline constexpr std::size_t source_piece_bytes = std::size_t{64} << 10;

/// @return `invalid_argument` unless `bundle_bytes` are what the expert takes.
[[nodiscard]] Status check_room(std::string_view place, std::size_t bundle_bytes, std::size_t expected_bytes);

/// Compares a bundle's bytes with the checksum that was stored with them, if one was.
class BundleVerifier {
 public:
  BundleVerifier(LayerId layer, ExpertId expert, std::optional<std::uint64_t> expected);

  /// The next bytes of the bundle, as they arrived.
  void update(std::span<const std::byte> bytes) noexcept;
  /// @return `corrupt`, with the place and both values.
  [[nodiscard]] Status finish(std::string_view place) const;

 private:
  std::optional<std::uint64_t> expected_;
  Checksum running_;
};

}  // namespace trimtab
