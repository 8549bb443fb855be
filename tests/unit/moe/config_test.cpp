// SPDX-License-Identifier: Apache-2.0
#include "moe/config.hpp"

#include <gtest/gtest.h>

namespace trimtab::moe {
namespace {

std::string message_of(const ModelConfig& config) {
  const Status checked = check_config(config);
  return checked ? "accepted" : checked.error().message;
}

TEST(ModelConfig, AcceptsDefaultsAndDeepSeekShape) {
  EXPECT_TRUE(check_config({}).has_value());
  EXPECT_TRUE(check_config({.num_experts = 256, .top_k = 8, .num_groups = 8, .top_groups = 4}).has_value());
}

TEST(ModelConfig, NamesFieldValueAndLimit) {
  EXPECT_EQ(message_of({.num_layers = 0}), "layers 0 is not in 1..65536");
  EXPECT_EQ(message_of({.num_experts = 8, .top_k = 9}), "top-k 9 is not in 1..8");
  EXPECT_EQ(message_of({.hidden = 70000}), "hidden 70000 is not in 1..65536");
  EXPECT_EQ(message_of({.num_experts = 32, .num_groups = 5}), "5 groups do not divide 32 experts");
  EXPECT_EQ(message_of({.num_groups = 4, .top_groups = 5}), "top-groups 5 is not in 1..4");
}

TEST(ModelConfig, RefusesTopKBeyondEligibleGroups) {
  EXPECT_EQ(message_of({.num_experts = 32, .top_k = 9, .num_groups = 8, .top_groups = 2}),
            "top-k 9 > 8 experts in 2 of 8 groups");
}

}  // namespace
}  // namespace trimtab::moe
