// SPDX-License-Identifier: Apache-2.0
#include "moe/gate_schedule.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trimtab::moe {
namespace {

const ModelConfig config{.num_layers = 1, .num_experts = 2, .top_k = 1};

std::vector<float> bias_of(const GateSchedule& schedule, std::uint64_t forward) {
  std::vector<float> bias(2);
  schedule.bias_at(Forward{forward}, bias);
  return bias;
}

TEST(GateSchedule, MovesLinearlyFromPhaseToPhase) {
  const auto schedule = GateSchedule::make(config, {0, 8, 4, 4, 8, 0}, 9);
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(bias_of(*schedule, 0), (std::vector<float>{0, 8}));
  EXPECT_EQ(bias_of(*schedule, 1), (std::vector<float>{1, 7}));
  EXPECT_EQ(bias_of(*schedule, 4), (std::vector<float>{4, 4}));
  EXPECT_EQ(bias_of(*schedule, 7), (std::vector<float>{7, 1}));
  EXPECT_EQ(bias_of(*schedule, 8), (std::vector<float>{8, 0}));
}

TEST(GateSchedule, StaysAtTheLastPhaseAfterTheEnd) {
  const auto schedule = GateSchedule::make(config, {0, 8, 4, 4}, 5);
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(bias_of(*schedule, 1000), (std::vector<float>{4, 4}));
}

TEST(GateSchedule, IsConstantForOnePhaseOrOneForward) {
  EXPECT_EQ(bias_of(*GateSchedule::make(config, {3, 5}, 100), 50), (std::vector<float>{3, 5}));
  EXPECT_EQ(bias_of(*GateSchedule::make(config, {3, 5, 7, 9}, 1), 0), (std::vector<float>{3, 5}));
}

TEST(GateSchedule, RefusesIncompletePhases) {
  EXPECT_EQ(GateSchedule::make(config, {1, 2, 3}, 5).error().message,
            "3 biases are no phases of 1 layers x 2 experts");
  EXPECT_FALSE(GateSchedule::make(config, {}, 5).has_value());
  EXPECT_FALSE(GateSchedule::make(config, {1, 2}, 0).has_value());
}

}  // namespace
}  // namespace trimtab::moe
