// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/imbalance.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;

// vllm-project/vllm#51813: rank loads 100 and 200 in both layers are a balancedness of 0.75.
TEST(Imbalance, SpellsTheSameMeasureInThreeWays) {
  const auto topology = Topology::make_uniform(2, 1, 2).value();
  const std::vector<std::vector<double>> layers = {{100, 200}, {100, 200}};
  for (const auto& rank_loads : layers) {
    const Imbalance imbalance = compute_imbalance(rank_loads, topology);
    EXPECT_DOUBLE_EQ(imbalance.balancedness(), 0.75);
    EXPECT_DOUBLE_EQ(imbalance.max_over_mean(), 4.0 / 3.0);
    EXPECT_DOUBLE_EQ(imbalance.excess(), 1.0 / 3.0);
  }
}

TEST(Imbalance, IsPerfectForZeroLoad) {
  const auto topology = Topology::make_uniform(2, 1, 2).value();
  const Imbalance imbalance = compute_imbalance(std::vector<double>{0, 0}, topology);
  EXPECT_EQ(imbalance.max_over_mean(), 1.0);
  EXPECT_EQ(imbalance.balancedness(), 1.0);
  EXPECT_EQ(imbalance.excess(), 0.0);
}

TEST(Imbalance, WeighsBySpeed) {
  const auto topology = Topology::make({{NodeId{0}, 1, 3.0}, {NodeId{0}, 1, 1.0}}).value();
  EXPECT_DOUBLE_EQ(compute_imbalance(std::vector<double>{300, 100}, topology).max_over_mean(), 1.0);
  EXPECT_DOUBLE_EQ(compute_imbalance(std::vector<double>{200, 200}, topology).max_over_mean(), 2.0);
}

TEST(Imbalance, LeavesDeadRanksOut) {
  const auto topology = Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}}).value();
  EXPECT_DOUBLE_EQ(compute_imbalance(std::vector<double>{50, 0}, topology).max_over_mean(), 1.0);
}

TEST(RankLoads, ShareEvenlyBetweenReplicas) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  const std::vector<ExpertId> row = {ExpertId{0}, ExpertId{1}, ExpertId{0}, no_expert};
  EXPECT_THAT(compute_rank_loads(std::vector<double>{30, 8}, row, topology), ElementsAre(23.0, 15.0));
}

TEST(RankLoads, LeaveReplicasOnDeadRanksOut) {
  const auto topology = Topology::make({{NodeId{0}, 1}, {NodeId{0}, 1, 1.0, false}, {NodeId{0}, 1}}).value();
  const std::vector<ExpertId> row(3, ExpertId{0});
  EXPECT_THAT(compute_rank_loads(std::vector<double>{30}, row, topology), ElementsAre(15.0, 0.0, 15.0));
}

}  // namespace
}  // namespace trimtab::test
