// SPDX-License-Identifier: Apache-2.0
#include "bundle_verifier.hpp"

#include <trimtab/weights/expert_store.hpp>

#include <fmt/format.h>

namespace trimtab {

Status check_room(std::string_view place, std::size_t bundle_bytes, std::size_t expected_bytes) {
  if (bundle_bytes == expected_bytes) return {};
  return failure(Errc::invalid_argument, fmt::format("{}: room for {} bytes, but the bundle has {}", place,
                                                     bundle_bytes, expected_bytes));
}

BundleVerifier::BundleVerifier(LayerId layer, ExpertId expert, std::optional<std::uint64_t> expected)
    : expected_(expected), running_(ExpertStore::start_checksum(layer, expert)) {}

void BundleVerifier::update(std::span<const std::byte> bytes) noexcept {
  if (expected_) running_.update(bytes);
}

Status BundleVerifier::finish(std::string_view place) const {
  if (!expected_ || running_.digest() == *expected_) return {};
  return failure(Errc::corrupt, fmt::format("{}: the bytes have checksum {:016x}, stored was {:016x}", place,
                                            running_.digest(), *expected_));
}

}  // namespace trimtab
