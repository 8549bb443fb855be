// SPDX-License-Identifier: Apache-2.0
#include "core/bulk_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trimtab::test {
namespace {

constexpr std::size_t guard = 64;
constexpr std::size_t sizes[]{0, 1, 63, 1023, 1024, 1025, 2048, 3071, 3072, 3073, 4096, 20000, 65537};

/// `size` bytes that start at an odd address, between guards.
std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(guard + 1 + size + guard);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + i / 251) ^ seed);
  return bytes;
}

std::span<std::byte> inside(std::vector<std::byte>& bytes) {
  return std::span(bytes).subspan(guard + 1, bytes.size() - 2 * guard - 1);
}

/// `outer` with its inside taken from `inner`.
std::vector<std::byte> framed(std::vector<std::byte> outer, std::vector<std::byte> inner) {
  std::ranges::copy(inside(inner), inside(outer).begin());
  return outer;
}

TEST(BulkCopy, CopiesAnySizeAndNothingBeside) {
  for (const std::size_t size : sizes) {
    std::vector<std::byte> from = pattern(size, 1);
    std::vector<std::byte> to = pattern(size, 2);
    const std::vector<std::byte> expected = framed(to, from);
    bulk_copy(inside(to), inside(from));
    EXPECT_EQ(to, expected) << size;
    EXPECT_EQ(from, pattern(size, 1)) << size;
  }
}

TEST(BulkSwap, SwapsAnySizeAndNothingBeside) {
  for (const std::size_t size : sizes) {
    std::vector<std::byte> a = pattern(size, 1);
    std::vector<std::byte> b = pattern(size, 2);
    const std::vector<std::byte> expected_a = framed(a, b);
    const std::vector<std::byte> expected_b = framed(b, a);
    bulk_swap(inside(a), inside(b));
    EXPECT_EQ(a, expected_a) << size;
    EXPECT_EQ(b, expected_b) << size;
  }
}

}  // namespace
}  // namespace trimtab::test
