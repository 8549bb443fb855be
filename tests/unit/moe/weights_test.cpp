// SPDX-License-Identifier: Apache-2.0
#include "moe/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "moe/expert_buffer.hpp"
#include "moe/rng.hpp"

namespace trimtab::moe {
namespace {

struct Generated {
  Generated(const ModelConfig& config, LayerId layer, ExpertId expert) : buffer(config) {
    generate_expert(config, layer, expert, bundle);
  }
  ExpertBuffer buffer;
  Bundle bundle = buffer.bundle();
};

template <class T>
bool same(std::span<T> a, std::span<T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// How many of the six tensors are the same.
int count_same(const Bundle& a, const Bundle& b) {
  return same(a.w13, b.w13) + same(a.w13_scale, b.w13_scale) + same(a.w13_offset, b.w13_offset) +
         same(a.w2, b.w2) + same(a.w2_scale, b.w2_scale) + same(a.w2_offset, b.w2_offset);
}

const ModelConfig small{.hidden = 63, .intermediate = 33};

TEST(Weights, AreAFunctionOfSeedLayerAndExpert) {
  const Generated a(small, LayerId{1}, ExpertId{2});
  EXPECT_EQ(count_same(a.bundle, Generated(small, LayerId{1}, ExpertId{2}).bundle), 6);
  EXPECT_EQ(count_same(a.bundle, Generated(small, LayerId{2}, ExpertId{1}).bundle), 0);
  EXPECT_EQ(count_same(a.bundle, Generated(small, LayerId{1}, ExpertId{3}).bundle), 0);
  ModelConfig reseeded = small;
  reseeded.seed = 2;
  EXPECT_EQ(count_same(a.bundle, Generated(reseeded, LayerId{1}, ExpertId{2}).bundle), 0);
}

TEST(Weights, UseAllOfSevenBitsAndNoMore) {
  const Generated a({}, LayerId{0}, ExpertId{0});
  for (const auto tensor : {a.bundle.w13, a.bundle.w2}) {
    const auto [low, high] = std::minmax_element(tensor.begin(), tensor.end());
    EXPECT_EQ(*low, -weight_limit);
    EXPECT_EQ(*high, weight_limit);
  }
}

TEST(RandomStream, SymmetricIsInRangeWithMeanZero) {
  const RandomStream random(7, Use::token, 1, 2);
  double sum = 0.0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const float value = random.symmetric(i);
    ASSERT_GE(value, -1.0f);
    ASSERT_LT(value, 1.0f);
    sum += static_cast<double>(value);
  }
  EXPECT_LT(std::abs(sum / 10000), 0.03);  // five standard deviations
}

}  // namespace
}  // namespace trimtab::moe
