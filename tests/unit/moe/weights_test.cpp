// SPDX-License-Identifier: Apache-2.0
#include "moe/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "moe/rng.hpp"

namespace trimtab::moe {
namespace {

struct Owned {
  explicit Owned(const ModelConfig& c)
      : w13(2 * c.inner() * c.width()),
        w13_scale(2 * c.inner()),
        w13_offset(2 * c.inner()),
        w2(c.width() * c.inner()),
        w2_scale(c.width()),
        w2_offset(c.width()) {}
  Bundle bundle() { return {w13, w13_scale, w13_offset, w2, w2_scale, w2_offset}; }
  bool operator==(const Owned&) const = default;

  std::vector<std::int8_t> w13;
  std::vector<float> w13_scale;
  std::vector<std::int32_t> w13_offset;
  std::vector<std::int8_t> w2;
  std::vector<float> w2_scale;
  std::vector<std::int32_t> w2_offset;
};

Owned generated(const ModelConfig& config, LayerId layer, ExpertId expert) {
  Owned owned(config);
  generate_expert(config, layer, expert, owned.bundle());
  return owned;
}

const ModelConfig small{.hidden = 63, .intermediate = 33};

TEST(Weights, AreAFunctionOfSeedLayerAndExpert) {
  const Owned a = generated(small, LayerId{1}, ExpertId{2});
  EXPECT_EQ(a, generated(small, LayerId{1}, ExpertId{2}));
  ModelConfig reseeded = small;
  reseeded.seed = 2;
  for (const Owned& other :
       {generated(small, LayerId{2}, ExpertId{1}), generated(small, LayerId{1}, ExpertId{3}),
        generated(reseeded, LayerId{1}, ExpertId{2})}) {
    EXPECT_NE(a.w13, other.w13);
    EXPECT_NE(a.w13_scale, other.w13_scale);
    EXPECT_NE(a.w13_offset, other.w13_offset);
    EXPECT_NE(a.w2, other.w2);
    EXPECT_NE(a.w2_scale, other.w2_scale);
    EXPECT_NE(a.w2_offset, other.w2_offset);
  }
}

TEST(Weights, UseAllOfSevenBitsAndNoMore) {
  const Owned a = generated({}, LayerId{0}, ExpertId{0});
  const auto [low, high] = std::minmax_element(a.w13.begin(), a.w13.end());
  EXPECT_EQ(*low, -weight_limit);
  EXPECT_EQ(*high, weight_limit);
  const auto [low2, high2] = std::minmax_element(a.w2.begin(), a.w2.end());
  EXPECT_EQ(*low2, -weight_limit);
  EXPECT_EQ(*high2, weight_limit);
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
