// SPDX-License-Identifier: Apache-2.0
#include "moe/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace trimtab::moe {
namespace {

using Bytes = std::vector<std::int8_t>;

Bytes random_bytes(std::size_t size, int low, int high, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> pick(low, high);
  Bytes bytes(size);
  for (std::int8_t& b : bytes) b = static_cast<std::int8_t>(pick(random));
  return bytes;
}

std::vector<std::int32_t> plain_gemm(const GemmShape& shape, const Bytes& a, const Bytes& w) {
  std::vector<std::int32_t> out(shape.rows * shape.channels, 0);
  for (std::size_t m = 0; m < shape.rows; ++m) {
    for (std::size_t n = 0; n < shape.channels; ++n) {
      for (std::size_t k = 0; k < shape.inputs; ++k) {
        out[m * shape.channels + n] += a[m * shape.inputs + k] * w[n * shape.inputs + k];
      }
    }
  }
  return out;
}

void expect_exact(const GemmShape& shape, const Bytes& activations, const Bytes& weights) {
  std::vector<std::int32_t> out(shape.rows * shape.channels, -1);
  ASSERT_TRUE(gemm_int8(shape, activations, weights, out).has_value());
  EXPECT_EQ(out, plain_gemm(shape, activations, weights))
      << shape.rows << " x " << shape.channels << " x " << shape.inputs;
}

TEST(Gemm, EqualsPlainIntegerLoopsForEveryBatchSize) {
  use_one_gemm_thread();
  for (const auto& [channels, inputs] : {std::pair<std::size_t, std::size_t>{32, 64}, {33, 47}}) {
    const Bytes weights = random_bytes(channels * inputs, -63, 63, 1);
    const Bytes activations = random_bytes(300 * inputs, -128, 127, 2);
    // The first rows of the largest product are the products of the smaller batches.
    const std::vector<std::int32_t> expected = plain_gemm({300, channels, inputs}, activations, weights);
    for (std::size_t rows = 1; rows <= 300; ++rows) {
      std::vector<std::int32_t> out(rows * channels, -1);
      ASSERT_TRUE(gemm_int8({rows, channels, inputs}, activations, weights, out).has_value());
      EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.begin()))
          << rows << " x " << channels << " x " << inputs;
    }
  }
}

TEST(Gemm, EqualsPlainIntegerLoopsForOddShapes) {
  use_one_gemm_thread();
  for (const std::size_t channels : {1U, 7U, 16U, 100U, 129U}) {
    for (const std::size_t inputs : {1U, 3U, 4U, 15U, 64U, 130U, 257U}) {
      const Bytes weights = random_bytes(channels * inputs, -63, 63, 3);
      const Bytes activations = random_bytes(65 * inputs, -128, 127, 4);
      for (const std::size_t rows : {1U, 2U, 17U, 65U})
        expect_exact({rows, channels, inputs}, activations, weights);
    }
  }
}

TEST(Gemm, DoesNotSaturateAtTheExtremes) {
  use_one_gemm_thread();
  const GemmShape shape{20, 40, 96};
  for (const int activation : {-128, -127, 127}) {
    for (const int weight : {-63, 63}) {
      expect_exact(shape, random_bytes(shape.rows * shape.inputs, activation, activation, 0),
                   random_bytes(shape.channels * shape.inputs, weight, weight, 0));
    }
  }
}

TEST(Gemm, RefusesShortMemory) {
  Bytes bytes(15);
  std::vector<std::int32_t> out(4);
  const Status status = gemm_int8({2, 2, 8}, bytes, bytes, out);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Errc::invalid_argument);
}

TEST(Gemm, AcceptsNoRows) { EXPECT_TRUE(gemm_int8({0, 2, 8}, {}, Bytes(16), {}).has_value()); }

}  // namespace
}  // namespace trimtab::moe
