// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <trimtab/core/checksum.hpp>

#include "core/checksum_kernel.hpp"

#include <xxhash.h>

namespace trimtab {
namespace {

ChecksumUpdate fastest_update() noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0) return update_checksum_avx512;
  if (__builtin_cpu_supports("avx2") != 0) return update_checksum_avx2;
#endif
  return update_checksum_generic;
}

void update_fastest(XXH3_state_t& state, std::span<const std::byte> bytes) noexcept {
  static const ChecksumUpdate update = fastest_update();
  update(&state, bytes.data(), bytes.size());
}

/// Below, choosing an inner loop costs more than it gains.
constexpr std::size_t small_bytes = 1024;

}  // namespace

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
  if (bytes.size() < small_bytes) {
    XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
  } else {
    update_fastest(state_->xxh3, bytes);
  }
}

std::uint64_t Checksum::digest() const noexcept { return XXH3_64bits_digest(&state_->xxh3); }

std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  if (bytes.size() < small_bytes) return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
  XXH3_state_t state{};
  XXH3_64bits_reset_withSeed(&state, seed);
  update_fastest(state, bytes);
  return XXH3_64bits_digest(&state);
}

}  // namespace trimtab
