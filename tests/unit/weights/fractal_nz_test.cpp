// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/fractal_nz.hpp>

#include "verify/nz_transcription.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trimtab::test {
namespace {

using verify::NzTranscription;

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(1 + i % 251);
  return bytes;
}

std::vector<std::byte> to_nz(NzShape shape, const std::vector<std::byte>& nd) {
  std::vector<std::byte> nz(nz_bytes(shape), std::byte{0xff});
  nd_to_nz(shape, nd, nz);
  return nz;
}

// CANN, TransdataOperation: {8, 100, 30} of float16 becomes {8, 2, 112, 16}.
TEST(FractalNz, HasTheSizeOfCannsExample) {
  const NzShape shape{100, 30 * 2};
  EXPECT_EQ(nz_block_columns(shape), 2U);
  EXPECT_EQ(nz_padded_rows(shape), 112U);
  EXPECT_EQ(nz_bytes(shape), 2U * 112 * 16 * 2);
}

// CANN, aclnnCalculateMatmulWeightSizeV2: [510, 510] of float16 takes 262144 elements, [510, 270] of int8
// 147456.
TEST(FractalNz, HasTheSizesThatCannCalculates) {
  EXPECT_EQ(nz_bytes({510, 510 * 2}), 262144U * 2);
  EXPECT_EQ(nz_bytes({510, 270}), 147456U);
}

TEST(FractalNz, PutsBlockColumnsOutermost) {
  const NzShape shape{32, 64};  // Two by two blocks of int8.
  EXPECT_EQ(nz_offset(shape, 0, 1), 1U);
  EXPECT_EQ(nz_offset(shape, 1, 0), 32U);
  EXPECT_EQ(nz_offset(shape, 16, 0), 512U);
  EXPECT_EQ(nz_offset(shape, 0, 32), 1024U);
}

TEST(FractalNz, AgreesWithItsDefinitionAroundEveryEdge) {
  for (const std::size_t element : {1U, 2U, 4U}) {
    for (const std::size_t rows : {1U, 15U, 16U, 17U, 32U, 33U}) {
      for (std::size_t columns = 1; columns <= 100 / element; ++columns) {
        const NzTranscription nz{{rows, columns, element}};
        const NzShape shape{rows, columns * element};
        const std::vector<std::byte> nd = counted(nz.matrix.size_bytes());
        ASSERT_EQ(to_nz(shape, nd), nz.to_nz(nd)) << rows << " x " << columns << " of " << element;
      }
    }
  }
}

TEST(FractalNz, ComesBackWhateverThePaddingHolds) {
  const NzShape shape{19, 70};
  const std::vector<std::byte> nd = counted(19 * 70);
  std::vector<std::byte> nz = to_nz(shape, nd);
  std::ranges::replace(nz, std::byte{0}, std::byte{0x7f});
  std::vector<std::byte> back(nd.size());
  nz_to_nd(shape, nz, back);
  EXPECT_EQ(back, nd);
}

TEST(FractalNz, ZeroesEveryByteOfPadding) {
  const NzShape shape{19, 70};
  const std::vector<std::byte> nz = to_nz(shape, counted(19 * 70));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(nz, std::byte{0})), nz.size() - 19 * 70);
}

}  // namespace
}  // namespace trimtab::test
