// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <trimtab/core/checksum.hpp>

#include <xxhash.h>

namespace trimtab {

struct Checksum::State {
  XXH3_state_t xxh3;
};

// Zeroed first: the reset compares its seed with the state's, and keeps the state's secret when they are
// equal.
Checksum::Checksum(std::uint64_t seed) : state_(new State{}) {
  XXH3_64bits_reset_withSeed(&state_->xxh3, seed);
}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::uint64_t Checksum::digest() const noexcept { return XXH3_64bits_digest(&state_->xxh3); }

std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace trimtab
