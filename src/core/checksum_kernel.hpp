// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace trimtab {

/// The inner loop of a checksum, compiled for one instruction set; all give the same values. `state` is an
/// XXH3_state_t. Bytes that are in no cache yet are asked for ahead of their use.
using ChecksumUpdate = void (*)(void* state, const std::byte* bytes, std::size_t size) noexcept;

void update_checksum_generic(void* state, const std::byte* bytes, std::size_t size) noexcept;
#ifdef __x86_64__
void update_checksum_avx2(void* state, const std::byte* bytes, std::size_t size) noexcept;
void update_checksum_avx512(void* state, const std::byte* bytes, std::size_t size) noexcept;
#endif

}  // namespace trimtab
