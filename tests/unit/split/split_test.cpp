// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Split, HoldsOneRowPerLayer) {
  const Result<Split> split = Split::make(2, 3, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->num_layers(), 2);
  EXPECT_EQ(split->num_slots(), 3);
  EXPECT_THAT(split->layer(LayerId{1}), ElementsAre(4, 5, 6));
}

TEST(Split, RefusesNegativeAssignments) {
  const Result<Split> split = Split::make(2, 3, {1, 2, 3, 4, -5, 6});
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().code, Errc::invalid_argument);
  EXPECT_THAT(split.error().message, HasSubstr("layer 1, slot 1: -5"));
}

TEST(Split, RefusesSizesThatDoNotAgree) {
  EXPECT_FALSE(Split::make(2, 3, {1, 2, 3}).has_value());
  EXPECT_FALSE(Split::make(0, 3, {}).has_value());
  EXPECT_FALSE(Split::make(1, 0, {}).has_value());
}

}  // namespace
}  // namespace trimtab::test
