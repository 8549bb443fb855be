// SPDX-License-Identifier: Apache-2.0
#include "core/bulk_copy.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace trimtab {
namespace {

/// Both measured with both threads of two ranks busy: smaller blocks cost calls, larger ones leave the
/// first-level cache; asking further ahead evicts what was asked for.
constexpr std::size_t block_bytes = 1024;
constexpr std::size_t ahead_bytes = 2048;
constexpr std::size_t line_bytes = 64;

void prefetch_block(std::span<std::byte> range, std::size_t at) noexcept {
  if (at + ahead_bytes + block_bytes > range.size()) return;
  for (std::size_t line = 0; line < block_bytes; line += line_bytes)
    __builtin_prefetch(range.data() + at + ahead_bytes + line, 1);
}

}  // namespace

void bulk_copy(std::span<std::byte> to, std::span<const std::byte> from) noexcept {
  TRIMTAB_ASSERT(to.size() == from.size());
  for (std::size_t at = 0; at < to.size(); at += block_bytes) {
    prefetch_block(to, at);
    std::memcpy(to.data() + at, from.data() + at, std::min(block_bytes, to.size() - at));
  }
}

void bulk_swap(std::span<std::byte> a, std::span<std::byte> b) noexcept {
  TRIMTAB_ASSERT(a.size() == b.size());
  std::array<std::byte, block_bytes> block;
  for (std::size_t at = 0; at < a.size(); at += block_bytes) {
    prefetch_block(a, at);
    prefetch_block(b, at);
    const std::size_t size = std::min(block_bytes, a.size() - at);
    std::memcpy(block.data(), a.data() + at, size);
    std::memcpy(a.data() + at, b.data() + at, size);
    std::memcpy(b.data() + at, block.data(), size);
  }
}

}  // namespace trimtab
