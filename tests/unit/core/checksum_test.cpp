// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/checksum.hpp>

#include "core/checksum_kernel.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace trimtab::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Values of the XXH3 specification, so that checksums stay comparable across versions and languages.
TEST(Checksum, IsXxh3) { EXPECT_EQ(checksum_of({}), 0x2d06800538d394c2ULL); }

TEST(Checksum, DoesNotDependOnHowTheBytesArePieced) {
  const std::string_view text = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Checksum running;
    running.update(bytes_of(text.substr(0, cut)));
    running.update(bytes_of(text.substr(cut)));
    EXPECT_EQ(running.digest(), checksum_of(bytes_of(text)));
  }
}

std::vector<ChecksumUpdate> kernels_of_this_machine() {
  std::vector<ChecksumUpdate> kernels{update_checksum_generic};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") != 0) kernels.push_back(update_checksum_avx2);
  if (__builtin_cpu_supports("avx512f") != 0) kernels.push_back(update_checksum_avx512);
#endif
  return kernels;
}

TEST(Checksum, DoesNotDependOnTheProcessor) {
  std::vector<std::byte> bytes(40'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i / 7);
  for (const std::size_t size : {0U, 1U, 255U, 1024U, 1025U, 4096U, 9216U, 9217U, 40'000U}) {
    const std::uint64_t expected = XXH3_64bits_withSeed(bytes.data(), size, 5);
    EXPECT_EQ(checksum_of(std::span(bytes).first(size), 5), expected) << size;
    for (const ChecksumUpdate update : kernels_of_this_machine()) {
      XXH3_state_t state{};
      XXH3_64bits_reset_withSeed(&state, 5);
      update(&state, bytes.data(), size / 3);
      update(&state, bytes.data() + size / 3, size - size / 3);
      EXPECT_EQ(XXH3_64bits_digest(&state), expected) << size;
    }
  }
}

TEST(Checksum, FindsEveryFlippedBit) {
  std::vector<std::byte> bytes(300, std::byte{0x5a});
  const std::uint64_t before = checksum_of(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(checksum_of(bytes), before);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Checksum, DependsOnTheSeed) {
  EXPECT_NE(checksum_of(bytes_of("abc"), 1), checksum_of(bytes_of("abc"), 2));
  Checksum seeded(1);
  seeded.update(bytes_of("abc"));
  EXPECT_EQ(seeded.digest(), checksum_of(bytes_of("abc"), 1));
}

// xxHash's reset reads the state before it writes it. Where a state of the same seed had lain, and something
// else after it, it once kept what was left of the secret.
TEST(Checksum, DoesNotDependOnWhatItsMemoryHeldBefore) {
  const std::vector<std::byte> bytes(300, std::byte{7});
  std::vector<std::vector<std::uint8_t>> others(16);
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t seed = 1 + i % 3;
    others[i * 7 % 16] = std::vector<std::uint8_t>(1 + i * 2654435761U % 1500, 0xee);
    Checksum sum(seed);
    sum.update(bytes);
    wrong += sum.digest() != checksum_of(bytes, seed) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0U);
}

TEST(Checksum, TakesValuesAsTheirBytes) {
  const std::uint32_t value = 0x01020304;
  Checksum running;
  running.update_value(value);
  EXPECT_EQ(running.digest(), checksum_of(std::as_bytes(std::span(&value, 1))));
}

TEST(Checksum, MayGoOnAfterADigestAndAMove) {
  Checksum running;
  running.update(bytes_of("ab"));
  EXPECT_EQ(running.digest(), checksum_of(bytes_of("ab")));
  Checksum moved = std::move(running);
  moved.update(bytes_of("c"));
  EXPECT_EQ(moved.digest(), checksum_of(bytes_of("abc")));
}

}  // namespace
}  // namespace trimtab::test
